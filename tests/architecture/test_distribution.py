"""Two distributions provide the package: the clash is named at import."""

import subprocess
import sys


def test_import_beside_the_other_distribution_says_so(tmp_path):
    other = tmp_path / "snapml-1.17.2.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: snapml\nVersion: 1.17.2\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import snapml"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ImportError" in done.stderr
    assert "snapml-open and snapml 1.17.2 (IBM's)" in done.stderr
