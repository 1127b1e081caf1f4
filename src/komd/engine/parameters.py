"""Parameters of models: listed, changed, copied, and shown as Python code."""

from __future__ import annotations

import inspect
from typing import Any, Self

from komd.errors import InputError, nearest

__all__ = ["Parameters"]


class Parameters:
    """A class whose constructor is keyword-only and stores each argument under its own name."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        signature = inspect.signature(cls.__init__)
        return {name: p.default for name, p in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as in scikit-learn.

        Parameters
        ----------
        deep : bool
            Accepted for scikit-learn's sake; it makes no difference, because no parameter is a model.

        Returns
        -------
        dict
            Values by parameter name.

        Examples
        --------
        >>> import komd
        >>> komd.MSDW(alpha=0.7).get_params()
        {'alpha': 0.7, 'locality': ...
        """
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters. A fitted model must be fitted again afterwards.

        Parameters
        ----------
        **params
            New values by name. If one is invalid, nothing is changed.

        Returns
        -------
        Self
            The model itself, no longer fitted.

        Raises
        ------
        InputError
            If a name is unknown or a value is invalid.

        Examples
        --------
        >>> import komd
        >>> komd.CFKOMD().set_params(regularization=0.1)
        CFKOMD(regularization=0.1)
        """
        known = self._defaults()
        for name in params:
            if name not in known:
                raise InputError(f"{type(self).__name__} has no parameter {name!r}; {nearest(name, known)}")
        checked = type(self)(**(self.get_params() | params))
        for name in known:
            setattr(self, name, getattr(checked, name))
        self._forget()
        return self

    def _forget(self) -> None:
        """Drop what was learned: called when parameters have changed."""

    def clone(self) -> Self:
        """Return an unfitted model with the same parameters.

        Returns
        -------
        Self
            A new model.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> model.clone()  # not fitted
        ECFOMD()
        """
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """Python code that makes this model, unfitted."""
        values = {name: _plain(value) for name, value in self.get_params().items()}
        changed = [f"{name}={values[name]!r}" for name, default in self._defaults().items() if values[name] != default]
        return f"{type(self).__name__}({', '.join(changed)})"


def _plain(value: Any) -> Any:
    """A numpy number as a Python number, whose `repr` is valid code without numpy."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value
