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
except ImportError:
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
    """What classifiers and regressions share. `options` are further options of `fast train`."""

    def __init__(self, model: Any = "mlp", epochs: int = 20, lr: float = 0.1, batch: int = 32, optimizer: str = "momentum",
                 workers: int = 1, system: Optional[str] = None, seed: int = 1, options: Optional[dict] = None):
        self.model, self.epochs, self.lr, self.batch, self.optimizer = model, epochs, lr, batch, optimizer
        self.workers, self.system, self.seed, self.options = workers, system, seed, options

    def _train(self, X: Any, data: Data) -> Any:
        if numpy is None:
            raise ImportError("estimators need NumPy")
        model = Network(*self.model) if isinstance(self.model, (list, tuple)) else self.model
        more = dict(epochs=self.epochs, lr=self.lr, batch=min(self.batch, len(data)), optimizer=self.optimizer,
                    workers=self.workers, system=self.system, seed=self.seed, store="none", **(self.options or {}))
        with Run(model, data, **more) as run, tempfile.TemporaryDirectory() as folder:
            run.train()
            self.loss_, self.n_iter_ = run.result.loss, run.result.steps
            path = os.path.join(folder, "model.safetensors")
            run.save(path)
            with open(path, "rb") as file:
                self.model_bytes_ = file.read()
        self.n_features_in_ = numpy.asarray(X).shape[1]
        return self

    def _model(self) -> Model:
        if not hasattr(self, "model_bytes_"):
            raise InvalidError(-2, f"this {type(self).__name__} is not fitted yet; call fit(X, y) first")
        if "_open" not in self.__dict__:
            self._open = Model(self.model_bytes_)
        return self._open

    def __getstate__(self) -> dict:
        return {k: v for k, v in self.__dict__.items() if k != "_open"}

    def _samples(self, X: Any) -> Any:
        return numpy.ascontiguousarray(X, "float32")


class Classifier(ClassifierMixin, _Estimator):
    """A classifier. `model` is a name ("mlp:hidden=64"), a Network's lines in a list, or a fast.Network.

    >>> fast.Classifier(epochs=30, workers=4, system="ssp").fit(X, y).score(X_test, y_test)
    """

    def fit(self, X: Any, y: Any) -> "Classifier":
        """Train on samples X and class labels y of any type."""
        self.classes_, labels = numpy.unique(numpy.asarray(y), return_inverse=True)
        return self._train(X, Data(self._samples(X), labels.astype("int32"), classes=max(2, len(self.classes_))))

    def predict_proba(self, X: Any) -> Any:
        """Probabilities [samples][classes]."""
        return self._model().probabilities(self._samples(X))[:, :len(self.classes_)]

    def predict(self, X: Any) -> Any:
        """The most probable class of each sample."""
        return self.classes_[self.predict_proba(X).argmax(1)]


class Regressor(RegressorMixin, _Estimator):
    """A regression, on standardised targets."""

    def fit(self, X: Any, y: Any) -> "Regressor":
        """Train on samples X and values y."""
        y = numpy.asarray(y, "float32")
        self._flat = y.ndim == 1
        y = y.reshape(len(y), -1)
        self.mean_, self.scale_ = y.mean(0), numpy.where(y.std(0) > 0, y.std(0), 1)
        data = Data(self._samples(X), ((y - self.mean_) / self.scale_).astype("float32"), regression=True)
        return self._train(X, data)

    def predict(self, X: Any) -> Any:
        """The values of each sample."""
        y = self._model().outputs(self._samples(X)) * self.scale_ + self.mean_
        return y[:, 0] if self._flat else y
