"""The example of the documentation runs and prints what it promises."""


def test_the_example_runs(root, run_python):
    path = root / "docs" / "examples" / "supervision.py"
    result = run_python(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "who left: Clerk#4 was stopped by its supervisor: RuntimeError: fire",
        "resumed:  apple pear",
        "restarted: pear",
    ]
