"""A correction as an MLflow model: loaded from this file and from JSON, without pickle.

mlflow.pyfunc.log_model(
    name="correction",
    python_model="mlflow_correction.py",
    artifacts={"correction": "model.json"},
    model_config={"score": "risk"},
    pip_requirements=["propcal"],
)
"""

from typing import Any

import mlflow

from propcal import Correction


class CorrectedScore(mlflow.pyfunc.PythonModel):
    """Takes a frame with the score and the columns that the correction reads; gives the
    corrected scores.
    """

    def load_context(self, context: Any) -> None:
        self.correction = Correction.load(context.artifacts["correction"])
        self.score = context.model_config["score"]

    def predict(self, context, model_input, params=None):
        return self.correction.apply(model_input[self.score], model_input)


mlflow.models.set_model(CorrectedScore())
