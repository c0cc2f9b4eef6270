"""xgboost's values: its objectives, metrics, updaters and content types.

Source: https://github.com/aws/sagemaker-xgboost-container, src/sagemaker_xgboost_container/constants/xgb_constants.py,
constants/xgb_content_types.py and algorithm_mode/hyperparameter_validation.py, which has the same values for all
versions from 1.3-1 unless this module's users state otherwise.
"""

from __future__ import annotations

LIBSVM = ("text/libsvm", "text/x-libsvm", "libsvm")
CSV = ("text/csv", "csv")
PARQUET = ("application/x-parquet", "parquet")
PROTOBUF = ("application/x-recordio-protobuf", "recordio-protobuf")

OBJECTIVES = (
    *("binary:hinge", "binary:logistic", "binary:logitraw", "count:poisson", "multi:softmax", "multi:softprob"),
    *("rank:map", "rank:ndcg", "rank:pairwise", "reg:gamma", "reg:linear", "reg:logistic", "reg:pseudohubererror"),
    *("reg:squarederror", "reg:squaredlogerror", "reg:tweedie", "survival:aft", "survival:cox"),
)

METRICS = (
    *("accuracy", "auc", "aucpr", "balanced_accuracy", "f1", "f1_binary", "f1_macro", "map", "ndcg", "precision"),
    *("precision_macro", "precision_micro", "r2", "recall", "recall_macro", "recall_micro"),
    *("aft-nloglik", "cox-nloglik", "error", "gamma-deviance", "gamma-nloglik", "interval-regression-accuracy"),
    *("logloss", "mae", "mape", "merror", "mlogloss", "mphe", "mse", "poisson-nloglik", "rmse", "rmsle"),
    "tweedie-nloglik",
)

TREE_UPDATERS = ("grow_colmaker", "distcol", "grow_histmaker", "grow_quantile_histmaker")
"""The updaters of which a job can have only one, because they grow trees."""

UPDATERS = (*TREE_UPDATERS, "grow_skmaker", "sync", "refresh", "prune", "shotgun", "coord_descent")
