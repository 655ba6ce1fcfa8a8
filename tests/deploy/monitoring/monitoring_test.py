"""The shipped alerts and dashboard: promtool accepts them and runs their cases, the dashboard is
the one that its script writes, and each metric that they name is in docs/status.md."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
METRIC = re.compile(r"\b(leat_[a-z_]+)\b")


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")


def check_rules():
    if not shutil.which("promtool"):
        sys.exit("expected promtool, of the package prometheus: deploy/install-deps --test")
    with tempfile.TemporaryDirectory() as folder:
        for path in (*MONITORING.glob("*.yaml"), ROOT / "tests/deploy/monitoring/alerts_test.yaml"):
            shutil.copy(path, folder)
        run("promtool", "check", "rules", "alerts.yaml", cwd=folder)
        run("promtool", "check", "config", "prometheus.yaml", cwd=folder)
        run("promtool", "test", "rules", "alerts_test.yaml", cwd=folder)


def check_dashboard():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(MONITORING / "make_dashboard", folder)
        run(sys.executable, "make_dashboard", cwd=folder)
        made = (pathlib.Path(folder) / "dashboard.json").read_text()
    if made != (MONITORING / "dashboard.json").read_text():
        sys.exit("deploy/monitoring/dashboard.json: expected the output of make_dashboard beside it")
    return [target["expr"] for panel in json.loads(made)["panels"] for target in panel["targets"]]


def check_metrics(expressions):
    documented = set(METRIC.findall((ROOT / "docs/status.md").read_text()))
    named = {name for text in expressions for name in METRIC.findall(text)}
    if not named:
        sys.exit("expected metrics in the alerts and the dashboard, found none")
    if missing := sorted(named - documented):
        sys.exit(f"metrics that docs/status.md does not have: {', '.join(missing)}")


def main():
    check_rules()
    expressions = check_dashboard()
    check_metrics(expressions + re.findall(r"expr: (.*(?:\n {10}.*)*)",
                                           (MONITORING / "alerts.yaml").read_text()))


if __name__ == "__main__":
    main()
