"""A wrong argument ends with status 2 before anything runs, in all three commands."""

import pytest


@pytest.mark.parametrize(
    "arguments",
    [["stress", "--json", "/no-such-folder/x.json"], ["stress", "--junit", "/no-such-folder/x.xml"],
     ["stress", "--json", "/"], ["stress", "--seconds", "0"], ["stress", "--jobs", "0"],
     ["stress", "--scheduler", "none"],
     ["stress.mutants", "--jobs", "0"], ["stress.mutants", "--jobs", "-1"],
     ["stress.mutants", "--seconds", "0"], ["stress.explore", "--seconds", "-3"]],
    ids=" ".join,
)  # fmt: skip
def test_a_wrong_argument_ends_with_status_2_and_nothing_runs(run_module, arguments):
    result = run_module(*arguments)
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert f"argument {arguments[1]}" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_could_be_found_is_told_even_if_the_report_cannot_be_written_after_all(run_module):
    result = run_module(
        "stress", "--workload", "tokens", "--cases", "1", "--seed", "1", "--json", "/dev/full"
    )
    assert result.returncode == 2, result.stdout + result.stderr
    assert "no finding" in result.stdout
    assert "/dev/full" in result.stderr
    assert "Traceback" not in result.stderr
