CREATE TABLE trials (
    seed INTEGER NOT NULL,
    model TEXT NOT NULL,
    setting TEXT NOT NULL, -- Setting.key()
    method TEXT NOT NULL,
    groups TEXT NOT NULL,
    alpha REAL,
    gamma REAL,
    rho REAL,
    fit_alpha REAL,
    n_train INTEGER NOT NULL, -- rows of the base model
    n_post INTEGER NOT NULL, -- rows to which post-processing was fitted
    n_test INTEGER NOT NULL,
    n_updates INTEGER NOT NULL,
    n_sweeps INTEGER NOT NULL,
    converged INTEGER NOT NULL,
    fit_seconds REAL NOT NULL,
    evaluation_seconds REAL NOT NULL,
    -- on the test set
    auroc REAL,
    brier REAL NOT NULL,
    log_loss REAL NOT NULL,
    mc_loss REAL, -- by settings.RULE
    pmc_loss REAL,
    dc_loss REAL,
    sizes_mc_loss REAL, -- by settings.SIZES_RULE
    sizes_pmc_loss REAL,
    sizes_dc_loss REAL,
    own_mc_loss REAL, -- by the fit's own rule
    own_pmc_loss REAL,
    own_dc_loss REAL,
    base_own_mc_loss REAL, -- of the base model, by the fit's own rule
    base_own_pmc_loss REAL,
    base_own_dc_loss REAL,
    true_risk_rms REAL, -- root mean squared error against the true risk, if known
    -- on the rows of the fit, by its own rule: what Algorithm 1 guarantees
    train_mc_loss REAL,
    train_pmc_loss REAL,
    PRIMARY KEY (seed, model, setting)
);
CREATE TABLE curves (
    seed INTEGER NOT NULL,
    model TEXT NOT NULL,
    setting TEXT NOT NULL,
    method TEXT NOT NULL,
    group_name TEXT NOT NULL,
    bin_index INTEGER NOT NULL,
    people INTEGER NOT NULL,
    positives INTEGER NOT NULL,
    score_sum REAL NOT NULL,
    PRIMARY KEY (seed, model, setting, group_name, bin_index)
);
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
