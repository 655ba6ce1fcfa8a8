#!/usr/bin/env python3
"""Opens the pages of a cluster in Chromium, light and dark, wide and narrow, and checks each with
axe-core's rules. A page may request nothing from another host, and has to load within a second.
Needs Debian's chromium, and playwright and axe-core-python from PyPI.

    pages_in_chromium.py BIN [SCREENSHOTS]

BIN is the folder of leat and leatd; SCREENSHOTS one for pictures of the light, wide pages, as docs/pictures
has them. Exit status 1 if a page breaks a rule.
"""
import shutil
import sys

from axe_core_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from dev_cluster import Cluster

SIZES = {"wide": (1300, 900), "phone": (390, 800)}
LONGEST_LOAD = 1.0  # seconds


def jobs_of(cluster):
    """One that has ended, one that failed, and one that trains."""
    ended = cluster.submit("name=ended", "epochs=1")
    cluster.wait(ended, "SUCCEEDED")
    failed = cluster.submit("name=failed", "optimizer.learning_rate=1e30")
    cluster.wait(failed, "FAILED")
    trains = cluster.submit("name=trains", "epochs=1000")
    cluster.wait(trains, "RUNNING")
    return ended, failed, trains


def check(page, axe, url, host):
    """Returns what is wrong with a page, and the milliseconds from its request until it is loaded. A
    page of steps is built when the job has done them: its time begins with the first byte."""
    begin = "responseStart" if url.endswith("/steps") else "requestStart"
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url, wait_until="load")
    took = page.evaluate(f"performance.timing.loadEventStart - performance.timing.{begin}")
    wrong = [f"requests {each}" for each in requests
             if not each.startswith((host, "data:"))]
    if took > 1000 * LONGEST_LOAD:
        wrong.append(f"loads in {took} ms, expected at most {1000 * LONGEST_LOAD:.0f} ms")
    for violation in axe.run(page)["violations"]:
        for node in violation["nodes"]:
            wrong.append(f"{violation['id']} ({violation['impact']}): {node['html'][:160]}")
    return wrong, took


def check_rules(browser):
    """Ends the program unless the rules find what is wrong with a bad page."""
    page = browser.new_page()
    page.set_content("<html><body><img src='data:,'><p style='color: #eee'>pale</p></body></html>")
    found = {each["id"] for each in Axe().run(page)["violations"]}
    expected = {"color-contrast", "html-has-lang", "image-alt"}
    if not expected <= found:
        sys.exit(f"axe-core: expected it to find {sorted(expected)}, received {sorted(found)}")


def check_steps(page, url):
    """Returns what is wrong with the ways to look at steps: the arrow keys choose a bar of the time
    line, and clicks on the graph lead from the devices to a node's card."""
    wrong = []
    page.goto(url, wait_until="load")
    page.focus(".lanes .scroll")
    texts = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
        texts.append(page.inner_text("#bar"))
    if not all(" ms" in text for text in texts) or len(set(texts)) < 2:
        wrong.append(f"expected the text of a bar after each arrow key, received {texts}")
    for _ in range(10):  # into scopes, until there are nodes
        nodes = page.locator("section:visible a:has(rect.node)")
        if nodes.count() > 0:
            break
        page.locator("section:visible a:has(rect.scope)").first.click()
    nodes.first.click()
    cards = page.locator(".card:visible")
    text = cards.first.inner_text() if cards.count() == 1 else ""
    if not all(part in text for part in ("Op", "Device", "Thread time")):
        wrong.append(f"expected the card of one node, received {cards.count()} with '{text}'")
    before = page.locator("section:visible svg").bounding_box()["width"]
    page.check("#graphs .twice")
    after = page.locator("section:visible svg").bounding_box()["width"]
    if after < 1.9 * before:
        wrong.append(f"expected a picture twice as wide as {before}, received {after}")
    return wrong


def check_all(browser, urls, host, screenshots):
    broken = 0
    for name, url in urls.items():
        for scheme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                context = browser.new_context(color_scheme=scheme, bypass_csp=True,
                                              viewport={"width": width, "height": height})
                page = context.new_page()
                wrong, took = check(page, Axe(), url, host)
                if screenshots and scheme == "light" and size == "wide":
                    # The curves of a job come after the page.
                    page.wait_for_function("!document.body.innerText.includes('Reading')", timeout=20000)
                    page.screenshot(path=f"{screenshots}/{name}.png")
                context.close()
                print(f"{name}, {scheme}, {size}: {took} ms, {len(wrong)} findings")
                for each in wrong:
                    print(f"  {each}")
                broken += len(wrong)
    return broken


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    chromium = shutil.which("chromium")
    if not chromium:
        sys.exit("expected chromium in the path: apt install chromium")
    screenshots = sys.argv[2] if len(sys.argv) > 2 else None
    cluster = Cluster(sys.argv[1])
    with sync_playwright() as playwright:
        try:
            ended, failed, trains = jobs_of(cluster)
            pages = {"cluster": "/", "ended": f"/jobs/{ended}", "failed": f"/jobs/{failed}",
                     "trains": f"/jobs/{trains}", "steps": f"/jobs/{trains}/steps",
                     "compare": f"/compare?a={ended}&b={trains}"}
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            check_rules(browser)
            urls = {name: cluster.http + path for name, path in pages.items()}
            broken = check_all(browser, urls, cluster.http, screenshots)
            for each in check_steps(browser.new_page(), urls["steps"]):
                print(f"steps: {each}")
                broken += 1
            browser.close()
        finally:
            cluster.stop()
    print(f"{broken} findings on {len(pages)} pages")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
