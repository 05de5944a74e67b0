"""An evaluator for mlflow.models.evaluate: for whom is the score wrong?

A plugin is found by its entry point. In the pyproject.toml of your package:

    [project.entry-points."mlflow.model_evaluator"]
    propcal = "mlflow_evaluator:PropcalEvaluator"

Then: mlflow.models.evaluate(model, data, targets="died", model_type="classifier",
evaluators="propcal", evaluator_config={"groups": ["race", "sex"]})
"""

import tempfile
from pathlib import Path
from typing import Any

import mlflow
from mlflow.models import EvaluationResult
from mlflow.models.evaluation import ModelEvaluator

from propcal import audit


class PropcalEvaluator(ModelEvaluator):
    """Logs the losses, whether the score is miscalibrated (1), right as far as is known
    (0), and the page.
    """

    @classmethod
    def can_evaluate(
        cls, *, model_type: str, evaluator_config: dict, **kwargs: Any
    ) -> bool:
        return "groups" in evaluator_config

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: dict,
        model: Any = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        people = dataset.features_data
        score = dataset.predictions_data if model is None else model.predict(people)
        result = audit(
            dataset.labels_data,
            score,
            sensitive_features=people[evaluator_config["groups"]],
        )
        metrics = {
            f"{name}_loss": float(value)
            for name, value in result.losses["value"].items()
        }
        metrics["miscalibrated"] = float(result.verdict.conclusion == "miscalibrated")
        mlflow.log_metrics(metrics, run_id=run_id)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "audit.html"
            result.to_html(page)
            mlflow.log_artifact(str(page), run_id=run_id)
        return EvaluationResult(metrics=metrics, artifacts={})
