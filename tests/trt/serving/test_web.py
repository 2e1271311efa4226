"""The page in a headless Chromium, with its stand-in for a microphone."""

import itertools
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.trt.serving.running import served
from trt.serve import ServeConfig

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--window-size=1100,1500",
)


@pytest.fixture(scope="module")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with chromedriver here (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in FLAGS:
        options.add_argument(flag)
    opened = webdriver.Chrome(options, Service(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def web(jasper, talker):
    cfg = ServeConfig(asr=jasper.with_suffix(".onnx"), tts=talker[0], vocoder=talker[1], port=0, web=True)
    with served(cfg) as running:
        yield running


@pytest.fixture
def page(browser, web):
    browser.get(web.url)
    yield browser
    severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []


def until(page, condition, seconds=30):
    return WebDriverWait(page, seconds, poll_frequency=0.05).until(lambda _: condition())


def one(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def several(page, selector):
    return page.find_elements(By.CSS_SELECTOR, selector)


@pytest.mark.nightly
def test_a_recording_is_read_with_its_words_in_time_and_a_word_is_heard(page, web, clips):
    one(page, "#file").send_keys(str(clips[2]))
    until(page, lambda: several(page, ".word"))
    found = json.loads(web.transcribe(clips[2].read_bytes(), response_format="verbose_json")[1])
    chips = several(page, ".word")
    assert len(found["words"]) > 3
    assert abs(len(chips) - len(found["words"])) <= 2  # the browser resamples by its own filter
    assert one(page, "#text").text.strip()
    lefts = [float(chip.value_of_css_property("left").removesuffix("px")) for chip in chips]
    assert lefts == sorted(lefts)
    rows: dict[float, list[tuple[float, float]]] = {}
    for rect in (chip.rect for chip in chips):
        rows.setdefault(rect["y"], []).append((rect["x"], rect["x"] + rect["width"]))
    if len(rows) < 5:  # else there are more words than have room
        assert all(end <= start + 1 for row in rows.values() for (_, end), (start, _) in itertools.pairwise(row))
    page.execute_script("document.getElementById('wave').click()")
    head = one(page, "#playhead")
    assert until(page, lambda: head.is_displayed() and float(head.value_of_css_property("left")[:-2]) > 0)
    until(page, lambda: not head.is_displayed())
    page.execute_script("arguments[0].click()", chips[1])
    start, end = map(float, until(page, lambda: one(page, "body").get_attribute("data-played")).split("-"))
    assert 0 <= start < end <= 3
    assert {link.get_attribute("download") for link in several(page, "#downloads a")} == {"words.json", "recording.wav"}


@pytest.mark.nightly
def test_what_is_no_recording_is_told(page, tmp_path):
    (tmp_path / "a.wav").write_bytes(b"rubbish")
    one(page, "#file").send_keys(str(tmp_path / "a.wav"))
    until(page, lambda: "a.wav: this browser cannot read it" in one(page, "#status").text)
    page.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    assert page.execute_script("return document.getElementById('status').getBoundingClientRect().top") >= 0


@pytest.mark.nightly
def test_the_microphone_is_recorded_and_captioned(page):
    one(page, "#listen").click()
    until(page, lambda: float(one(page, "#heard").text.removesuffix(" s") or 0) > 1.5)
    one(page, "#listen").click()
    assert float(until(page, lambda: one(page, "#captions").get_attribute("data-done"))) > 1
    one(page, "#record").click()
    until(page, lambda: one(page, "#record").text == "Stop")
    time.sleep(1)
    one(page, "#record").click()
    until(page, lambda: one(page, "#text").text)


@pytest.mark.nightly
def test_a_sentence_is_spoken_its_prosody_dragged_and_the_ssml_kept(page):
    actions = webdriver.ActionChains(page)
    one(page, "#speak").click()
    first = until(page, lambda: one(page, "#player").get_attribute("data-bytes"))
    words = [text.text for text in several(page, "#prosody text:not(.value)")]
    assert words == ["good", "morning", "how", "are", "you", "today"]
    assert one(page, "#ssml").get_attribute("value") == "<speak>Good morning. How are you today?</speak>"
    assert not one(page, "#again").is_enabled()
    assert [option.get_attribute("value") for option in several(page, "#voice option")] == ["0"]
    labels: dict[float, list[tuple[float, float]]] = {}
    for rect in (text.rect for text in several(page, "#prosody text:not(.value)")):
        labels.setdefault(rect["y"], []).append((rect["x"], rect["x"] + rect["width"]))
    assert all(end <= start for row in labels.values() for (_, end), (start, _) in itertools.pairwise(row))
    edge = one(page, ".edge[data-word='2']")
    assert (edge.get_attribute("role"), edge.get_attribute("aria-label")) == ("slider", "how: duration as a factor")
    page.execute_script("arguments[0].focus()", edge)
    actions.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    assert page.switch_to.active_element.get_attribute("aria-valuenow") == "1.1"
    assert '<prosody rate="91%">How</prosody>' in one(page, "#ssml").get_attribute("value")
    actions.drag_and_drop_by_offset(one(page, ".pitch[data-word='1']"), 0, -20).perform()
    actions.drag_and_drop_by_offset(one(page, ".edge[data-word='1']"), 60, 0).perform()
    actions.drag_and_drop_by_offset(one(page, ".energy[data-word='4']"), 0, 10).perform()
    ssml = one(page, "#ssml").get_attribute("value")
    assert '<prosody pitch="+' in ssml
    assert 'rate="' in ssml
    assert '<prosody volume="-4' in ssml
    if picture := os.environ.get("PICTURE"):
        page.save_screenshot(picture)
    one(page, "#again").click()
    until(page, lambda: one(page, "#player").get_attribute("data-bytes") != first)
    kept = {link.get_attribute("download") for link in several(page, "#kept a")}
    assert kept == {"speech.flac", "speech.ssml"}
    one(page, "#reset").click()
    assert "prosody" not in one(page, "#ssml").get_attribute("value")


def test_only_files_of_the_page_are_served(web, server):
    assert web.ask("GET", "/")[1].startswith(b"<!doctype html>")
    for path in ("/page/nothing.js", "/page/..%2fweb.py", "/page/../web.py", "/page/%2e%2e/serve.py"):
        assert web.ask("GET", path)[0] == 404
    assert server.ask("GET", "/")[0] == 404


def test_the_page_asks_nobody_else():
    folder = Path(__file__).parents[3] / "trt" / "serving" / "page"
    for path in folder.iterdir():
        assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "").replace('"https:"', ""), path
