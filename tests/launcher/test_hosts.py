"""Which machines a job may use: stated, listed in a file, given by Slurm or PBS."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapml_run.hosts import Host, find_allocation, parse_host_file, parse_hosts
from snapml_run.refusal import Refusal
from snapml_run.slurm import expand_counts, expand_nodes, slurm_nodes

SLURM = {
    "SLURM_JOB_NODELIST": "n[01-02,7],login2",
    "SLURM_TASKS_PER_NODE": "2(x3),1",
    "SLURM_JOB_CPUS_PER_NODE": "16(x2),8,4",
}


def test_list_of_hosts():
    assert parse_hosts("a:2, b.site.org,c-1:12") == (
        Host("a", 2),
        Host("b.site.org"),
        Host("c-1", 12),
    )


def test_host_file_in_either_manner():
    text = "# machines\na slots=2\n\nb:3  # the fast one\nc\n"
    assert parse_host_file(text) == (Host("a", 2), Host("b", 3), Host("c"))


@pytest.mark.parametrize(
    ("text", "came"),
    [("a:0", "'a:0'"), ("a:two", "'a:two'"), ("a,,b", "''"), ("a b", "'a b'"), ("-x", "'-x'")],
)
def test_list_that_is_none_is_refused(text, came):
    with pytest.raises(Refusal, match="expected a machine") as refusal:
        parse_hosts(text)
    assert str(refusal.value).endswith(came)


def test_machine_named_twice_is_refused():
    with pytest.raises(Refusal, match="expected each machine once, got a again"):
        parse_hosts("a:1,b:1,a:2")


@pytest.mark.parametrize("text", ["a slots=x", "a slots=2 max_slots=4", "a;b"])
def test_other_lines_of_a_host_file_are_refused(text):
    with pytest.raises(Refusal, match="expected"):
        parse_host_file(text)


def test_empty_host_file_is_refused(tmp_path):
    (tmp_path / "hosts").write_text("# none\n")
    with pytest.raises(Refusal, match="names no machine"):
        find_allocation(None, str(tmp_path / "hosts"), {})
    with pytest.raises(Refusal, match=r"--hostfile: cannot read .*: No such file"):
        find_allocation(None, str(tmp_path / "none"), {})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[01-03,7],login2", ["n01", "n02", "n03", "n7", "login2"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("r[1-2]n[1,3]-ib", ["r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib"]),
        ("a,b[2],c", ["a", "b2", "c"]),
    ],
)
def test_compressed_names_of_slurm(text, names):
    assert expand_nodes(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n[a-b]", "n[]", "n]1[", "n 1", "a,,b"])
def test_names_that_slurm_never_writes_are_refused(text):
    with pytest.raises(Refusal, match="Slurm: expected"):
        expand_nodes(text)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=20))
@example([2, 2, 2, 1])
def test_counts_come_back_from_their_compressed_form(counts):
    compressed, place = [], 0
    while place < len(counts):
        end = place
        while end < len(counts) and counts[end] == counts[place]:
            end += 1
        times = f"(x{end - place})" if end - place > 1 else ""
        compressed.append(f"{counts[place]}{times}")
        place = end
    assert expand_counts(",".join(compressed)) == counts


@given(st.lists(st.integers(0, 120), min_size=1, max_size=20, unique=True).map(sorted))
@example([1, 2, 3, 7])
def test_names_come_back_from_their_compressed_form(numbers):
    ranges = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    text = ",".join(f"{a:03d}" if a == b else f"{a:03d}-{b:03d}" for a, b in ranges)
    assert expand_nodes(f"n[{text}]") == [f"n{number:03d}" for number in numbers]


@pytest.mark.parametrize("text", ["2(x", "two", "2(3)", "", "2,,1"])
def test_counts_that_slurm_never_writes_are_refused(text):
    with pytest.raises(Refusal, match="expected numbers as in"):
        expand_counts(text)


def test_slurm_job_gives_machines_ranks_and_cpus():
    assert slurm_nodes(SLURM) == [("n01", 2, 16), ("n02", 2, 16), ("n7", 2, 8), ("login2", 1, 4)]


def test_cpus_of_this_node_stand_for_all_where_slurm_says_no_more():
    environment = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_CPUS_ON_NODE": "8"}
    assert slurm_nodes(environment) == [("n1", None, 8), ("n2", None, 8)]


def test_lists_of_slurm_that_differ_in_length_are_refused():
    with pytest.raises(Refusal, match=r"SLURM_TASKS_PER_NODE has 3 numbers, .* 4 names"):
        slurm_nodes({**SLURM, "SLURM_TASKS_PER_NODE": "2(x3)"})


def test_pbs_names_a_machine_once_for_each_rank(tmp_path):
    path = tmp_path / "nodes"
    path.write_text("n2\nn2\nn1\nn2\n")
    found = find_allocation(None, None, {"PBS_NODEFILE": str(path)})
    assert found.source == "PBS"
    assert found.hosts == (Host("n2", 3), Host("n1", 1))


def test_what_the_user_says_goes_before_the_scheduler():
    assert find_allocation("a:1", None, SLURM).hosts == (Host("a", 1),)
    assert find_allocation(None, None, SLURM).source == "Slurm"
    assert find_allocation(None, None, {}).source == "this machine"
