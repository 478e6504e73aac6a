"""Parameters of generalized linear models, with Spark's names, defaults and checks."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasElasticNetParam

from snapml.distributed.spark.driver.errors import InvalidInput
from snapml.distributed.spark.param_effects import PASSED_ON
from snapml.distributed.spark.params import LinearParams
from snapml.distributed.spark.tasks.request import FamilyName
from snapml.distributed.spark.tasks.targets import family_of
from snapml.estimators.deviance.families import BINOMIAL_LOSSES, Family

__all__ = ["GeneralizedLinearParams"]

# What is fitted of each family, and what Spark takes where no link is set.
_LINKS: dict[str, tuple[str, ...]]
_LINKS = {
    "gaussian": ("identity",),
    "binomial": tuple(BINOMIAL_LOSSES),
    "poisson": ("log",),
    "gamma": ("log",),
}
_SPARKS_LINKS = {**{name: links[0] for name, links in _LINKS.items()}, "gamma": "inverse"}


class GeneralizedLinearParams(LinearParams, HasElasticNetParam):
    """Parameters of `GeneralizedLinearRegression` and its model."""

    family: Any = Param(
        Params._dummy(),
        "family",
        "'gaussian', 'binomial', 'poisson', 'gamma' or 'tweedie'",
        typeConverter=TypeConverters.toString,
    )
    link: Any = Param(
        Params._dummy(), "link", PASSED_ON["link"], typeConverter=TypeConverters.toString
    )
    variancePower: Any = Param(
        Params._dummy(),
        "variancePower",
        PASSED_ON["variancePower"],
        typeConverter=TypeConverters.toFloat,
    )
    linkPower: Any = Param(
        Params._dummy(), "linkPower", PASSED_ON["linkPower"], typeConverter=TypeConverters.toFloat
    )
    linkPredictionCol: Any = Param(
        Params._dummy(),
        "linkPredictionCol",
        PASSED_ON["linkPredictionCol"],
        typeConverter=TypeConverters.toString,
    )
    offsetCol: Any = Param(
        Params._dummy(), "offsetCol", PASSED_ON["offsetCol"], typeConverter=TypeConverters.toString
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(
            family="gaussian",
            variancePower=0.0,
            maxIter=25,
            solver="irls",
            elasticNetParam=0.0,
            standardization=None,
        )

    def getFamily(self) -> str:
        """Return the distribution of the labels."""
        return self.getOrDefault(self.family)

    def getLink(self) -> str | None:
        """Return the link, None for Spark's own of the family."""
        return self.getOrDefault(self.link) if self.isDefined(self.link) else None

    def getVariancePower(self) -> float:
        """Return the power of the mean that the variance of 'tweedie' is proportional to."""
        return self.getOrDefault(self.variancePower)

    def getLinkPower(self) -> float:
        """Return the power of the mean that is linear, ``1 - variancePower`` where none is set."""
        if self.isSet(self.linkPower):
            return self.getOrDefault(self.linkPower)
        return 1.0 - self.getVariancePower()

    def getLinkPredictionCol(self) -> str:
        """Return the name of the column of linear predictions, '' for none."""
        if not self.isDefined(self.linkPredictionCol):
            return ""
        return self.getOrDefault(self.linkPredictionCol) or ""

    def getOffsetCol(self) -> str:
        """Return the name of the column of offsets, '' for none."""
        return (self.getOrDefault(self.offsetCol) or "") if self.isDefined(self.offsetCol) else ""

    def _check(self) -> None:
        super()._check()
        self._own_family()

    def _spark_family(self) -> FamilyName:
        """Return the family that is fitted.

        Raises
        ------
        InvalidInput
            If there is no such family, or it is not fitted with this link.
        """
        family = self.getFamily().lower()
        if family == "tweedie":
            return self._tweedie()
        if family not in _LINKS:
            raise InvalidInput(
                f"family: expected one of {(*_LINKS, 'tweedie')}, got {self.getFamily()!r}"
            )
        link, known = (self.getLink() or _SPARKS_LINKS[family]).lower(), _LINKS[family]
        if link not in known:
            came = f"{link!r}" if self.getLink() else f"none, which is {link!r} as in Spark"
            expected = f"{known[0]!r}" if len(known) == 1 else f"one of {known}"
            raise InvalidInput(
                f"link: expected {expected} with family={family!r}, got {came}: no other is "
                "fitted; pyspark.ml's class has it"
            )
        return FamilyName(family, link)

    def _tweedie(self) -> FamilyName:
        power, of_link = self.getVariancePower(), self.getLinkPower()
        if (power, of_link) == (0.0, 1.0):
            return FamilyName("gaussian", "identity")
        if not 1.0 <= power <= 2.0:
            raise InvalidInput(
                f"variancePower: expected 0, or from 1 to 2, got {power}: no other is fitted; "
                "pyspark.ml's class has those above 2"
            )
        if of_link != 0.0:
            came = f"{of_link}" if self.isSet(self.linkPower) else f"none, which is {of_link}"
            raise InvalidInput(
                f"linkPower: expected 0.0, the logarithm, with variancePower={power}, got {came}: "
                "no other is fitted; pyspark.ml's class has it"
            )
        return FamilyName("tweedie", "log", power)

    def _is_gaussian(self) -> bool:
        return self._spark_family().name == "gaussian"

    def _is_standardised(self) -> bool:
        chosen = self.getStandardization()
        return self._is_gaussian() if chosen is None else bool(chosen)

    def _own_family(self) -> Family:
        return family_of(self._spark_family())

    def _family_name(self) -> str:
        """Return the family by the name that `GeneralizedLinearRegressor` has for it."""
        asked = self._spark_family()
        names = {"gaussian": "normal", "tweedie": f"tweedie ({asked.power!r})"}
        return names.get(asked.name, asked.name)

    def _offset_column(self) -> str | None:
        return self.getOffsetCol() or None
