"""How many tasks a cluster runs at once, and what is said where that is too few."""

import pytest

pytest.importorskip("pyspark")

import pyspark

from snapml.distributed import spark as snapml_spark
from snapml.distributed.spark.driver import slots
from snapml.distributed.spark.driver.gpu_profile import gpu_profile

pytestmark = pytest.mark.spark


def test_all_slots_are_taken_unless_fewer_are_asked_for(spark):
    assert [slots.n_tasks(spark, asked) for asked in (None, 1, 2)] == [2, 1, 2]


def test_more_tasks_than_slots_raise_before_the_stage(spark, frames):
    spark.sparkContext.setJobGroup("slots", "")
    message = (
        r"numWorkers=3: expected at most the 2 tasks that the cluster runs at once \(its cores"
    )
    with pytest.raises(RuntimeError, match=message):
        snapml_spark.LogisticRegression(numWorkers=3).fit(frames(2))
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("slots")


class Session:
    """Of a cluster, whose executors register one after the other."""

    def __init__(self, monkeypatch, n_slots, **settings):
        self.conf = {"spark.master": "spark://host:7077"} | settings
        self.n_slots = iter(n_slots)
        monkeypatch.setattr(slots, "_n_slots", lambda session, *_: next(session.n_slots))
        monkeypatch.setattr(slots, "_PAUSE_S", 0.0)


def test_executors_that_are_still_registering_are_waited_for(monkeypatch):
    assert slots.n_tasks(Session(monkeypatch, [0, 1, 1, 2]), 2) == 2
    assert slots.n_tasks(Session(monkeypatch, [0, 0, 3]), None) == 3


def test_the_wait_ends(monkeypatch):
    monkeypatch.setattr(slots, "WAIT_S", 0.0)
    message = r"numWorkers=2: expected at most the 1 tasks .*, after 0 s of waiting for executors"
    with pytest.raises(RuntimeError, match=message):
        slots.n_tasks(Session(monkeypatch, [1]), 2)
    with pytest.raises(RuntimeError, match="expected a cluster that runs at least one task"):
        slots.n_tasks(Session(monkeypatch, [0]), None)


def test_executors_that_come_and_go_are_refused(monkeypatch):
    session = Session(monkeypatch, [], **{"spark.dynamicAllocation.enabled": "True"})
    with pytest.raises(RuntimeError, match=r"spark\.dynamicAllocation\.enabled=true: expected"):
        slots.n_tasks(session, 1)


def test_slots_that_connect_does_not_show_must_be_named(monkeypatch):
    assert slots.n_tasks(Session(monkeypatch, [None]), 5) == 5
    with pytest.raises(RuntimeError, match="numWorkers: expected a number over Spark Connect"):
        slots.n_tasks(Session(monkeypatch, [None]), None)


def test_a_session_without_gpus_says_what_to_set_before_the_stage(spark, frames):
    spark.sparkContext.setJobGroup("gpus", "")
    message = (
        r"useGpu=True: expected .* set spark\.executor\.resource\.gpu\.amount and "
        r"spark\.executor\.resource\.gpu\.discoveryScript, or .* deviceIds; got "
        r"spark\.executor\.resource\.gpu\.amount=None with spark\.master=local\[2\]"
    )
    with pytest.raises(RuntimeError, match=message):
        snapml_spark.LogisticRegression(useGpu=True).fit(frames(2))
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("gpus")


def test_gpus_limit_the_tasks_and_connect_does_not_show_them(monkeypatch):
    monkeypatch.setattr(slots, "WAIT_S", 0.0)
    with pytest.raises(RuntimeError, match=r"at most the 1 tasks .* or its GPUs by those of a"):
        slots.n_tasks(Session(monkeypatch, [1]), 2, use_gpu=True)
    with pytest.raises(RuntimeError, match=r"numWorkers: expected a number .* useGpu=True"):
        slots.n_tasks(Session(monkeypatch, [None]), None, use_gpu=True)


def test_version_3_needs_a_setting_for_the_gpus_of_tasks(monkeypatch):
    settings = {"spark.executor.resource.gpu.amount": "1"}
    session = Session(monkeypatch, [], **settings)
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    with pytest.raises(RuntimeError, match=r"expected spark\.task\.resource\.gpu\.amount, since"):
        gpu_profile(session)
    session.conf["spark.task.resource.gpu.amount"] = "1"
    assert gpu_profile(session) is None
