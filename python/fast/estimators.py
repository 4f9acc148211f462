# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's estimator interface; scikit-learn itself is not needed."""
from __future__ import annotations

import inspect
import os
import tempfile
from typing import Any, Optional

from . import _arrays
from ._library import InvalidError
from .predict import Model
from .run import Data, Network, Run

numpy = _arrays.numpy
try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_X_y, column_or_1d
except ImportError:
    check_array = None

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """predict() before fit()."""

    class BaseEstimator:  # type: ignore[no-redef]
        """The parameters of an estimator, as scikit-learn reads and sets them."""

        def get_params(self, deep: bool = True) -> dict:
            names = [n for n in inspect.signature(type(self).__init__).parameters if n != "self"]
            return {name: getattr(self, name) for name in names}

        def set_params(self, **params: Any) -> "BaseEstimator":
            for name, value in params.items():
                setattr(self, name, value)
            return self

    class ClassifierMixin:  # type: ignore[no-redef]
        """The score of a classifier: its accuracy."""
        _estimator_type = "classifier"

        def score(self, X: Any, y: Any) -> float:
            return float((self.predict(X) == numpy.asarray(y)).mean())  # type: ignore[attr-defined]

    class RegressorMixin:  # type: ignore[no-redef]
        """The score of a regression: R2."""
        _estimator_type = "regressor"

        def score(self, X: Any, y: Any) -> float:
            y = numpy.asarray(y)
            error = ((y - self.predict(X)) ** 2).sum()  # type: ignore[attr-defined]
            return float(1 - error / ((y - y.mean(0)) ** 2).sum())


class _Estimator(BaseEstimator):
    """What classifiers and regressions share. Samples are standardised; `options` are further ones of `fast train`."""

    def __init__(self, model: Any = "mlp", epochs: int = 20, lr: float = 0.1, batch: int = 32, optimizer: str = "momentum",
                 workers: int = 1, system: Optional[str] = None, seed: int = 1, options: Optional[dict] = None):
        self.model, self.epochs, self.lr, self.batch, self.optimizer = model, epochs, lr, batch, optimizer
        self.workers, self.system, self.seed, self.options = workers, system, seed, options

    def _standard(self, X: Any) -> Any:
        """Samples on the scale of those that fit() has seen: at a fixed learning rate others would diverge."""
        return numpy.ascontiguousarray((X - self.center_) / self.spread_, "float32")

    def _train(self, X: Any, y: Any, **more_data: Any) -> Any:
        self.center_, self.spread_ = X.mean(0), X.std(0)
        self.spread_ = numpy.where(self.spread_ > 1e-6 * numpy.maximum(1, abs(self.center_)), self.spread_, 1)
        data = Data(self._standard(X), y, **more_data)
        model = Network(*self.model) if isinstance(self.model, (list, tuple)) else self.model
        more = dict(epochs=self.epochs, lr=self.lr, batch=min(self.batch, len(data)), optimizer=self.optimizer,
                    workers=self.workers, system=self.system, seed=self.seed, store="none", **(self.options or {}))
        with Run(model, data, **more) as run, tempfile.TemporaryDirectory() as folder:
            run.train()
            self.loss_, self.n_iter_ = run.result.loss, run.result.steps
            if not isinstance(self.loss_, (int, float)) or not numpy.isfinite(self.loss_):
                raise InvalidError(-2, f"training has diverged: the loss is {self.loss_}; use a lower lr than {self.lr}")
            path = os.path.join(folder, "model.safetensors")
            run.save(path)
            with open(path, "rb") as file:
                self.model_bytes_ = file.read()
        self.n_features_in_ = X.shape[1]
        self._open: Optional[Model] = Model(self.model_bytes_)
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_bytes_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(X, y) first")

    def _model(self) -> Model:
        self._check_fitted()
        if self._open is None:  # unpickled
            self._open = Model(self.model_bytes_)
        return self._open

    def __getstate__(self) -> dict:
        return dict(self.__dict__, _open=None) if hasattr(self, "model_bytes_") else self.__dict__

    def _samples(self, X: Any) -> Any:
        """Samples to predict, checked."""
        self._check_fitted()
        if check_array is not None:
            X = check_array(X, allow_nd=True)
        X = numpy.ascontiguousarray(X, "float32")
        if X.ndim < 2 or X.shape[1] != self.n_features_in_:
            raise InvalidError(-2, f"X has {X.shape[1] if X.ndim > 1 else 0} features, but {type(self).__name__} is expecting "
                               f"{self.n_features_in_} features as input")
        return X

    def _pair(self, X: Any, y: Any, classes: bool) -> Any:
        """Samples and answers for fit(), checked as scikit-learn does, or without it for what would train nonsense."""
        if numpy is None:
            raise ImportError("estimators need NumPy")
        if y is None:
            raise InvalidError(-2, f"this {type(self).__name__} requires y to be passed, but the target y is None")
        if check_array is not None:
            X, y = check_X_y(X, y, allow_nd=True, multi_output=True, y_numeric=not classes)
            if classes:
                check_classification_targets(y)
            if classes or (y.ndim == 2 and y.shape[1] == 1):
                y = column_or_1d(y, warn=True)
            return numpy.ascontiguousarray(X, "float32"), y
        X, y = numpy.ascontiguousarray(X, "float32"), numpy.asarray(y)
        if not numpy.isfinite(X).all() or (y.dtype.kind == "f" and not numpy.isfinite(y).all()):
            raise InvalidError(-2, "X or y has values that are NaN or infinite")
        if len(X) != len(y):
            raise InvalidError(-2, f"X has {len(X)} samples, y has {len(y)}")
        return X, y


class Classifier(ClassifierMixin, _Estimator):
    """A classifier. `model` is a name ("mlp:hidden=64"), a Network's lines in a list, or a fast.Network.

    >>> fast.Classifier(epochs=30, workers=4, system="ssp").fit(X, y).score(X_test, y_test)
    """

    def fit(self, X: Any, y: Any) -> "Classifier":
        """Train on samples X and class labels y of any type."""
        X, y = self._pair(X, y, classes=True)
        self.classes_, labels = numpy.unique(y, return_inverse=True)
        return self._train(X, labels.astype("int32"), classes=max(2, len(self.classes_)))

    def predict_proba(self, X: Any) -> Any:
        """Probabilities [samples][classes]."""
        X = self._samples(X)
        return self._model().probabilities(self._standard(X))[:, :len(self.classes_)]

    def predict(self, X: Any) -> Any:
        """The most probable class of each sample."""
        found = self.predict_proba(X).argmax(1)
        return self.classes_[found]


class Regressor(RegressorMixin, _Estimator):
    """A regression, on standardised targets."""

    def fit(self, X: Any, y: Any) -> "Regressor":
        """Train on samples X and values y."""
        X, y = self._pair(X, y, classes=False)
        y = numpy.asarray(y, "float64")
        self._flat = y.ndim == 1
        y = y.reshape(len(y), -1)
        self.mean_, self.scale_ = y.mean(0), numpy.where(y.std(0) > 0, y.std(0), 1)
        return self._train(X, ((y - self.mean_) / self.scale_).astype("float32"), regression=True)

    def predict(self, X: Any) -> Any:
        """The values of each sample."""
        X = self._samples(X)
        y = self._model().outputs(self._standard(X)) * self.scale_ + self.mean_
        return y[:, 0] if self._flat else y
