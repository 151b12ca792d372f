"""Chromium for tests of the labelling page, restricted to one server."""

from __future__ import annotations

import base64
import json
import time

from maxendnet.web.rendering.chromium import OPTIONS, Chromium

KEYS = {"Enter": 13, "Delete": 46, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27}
KEYS |= {"PageUp": 33, "PageDown": 34}
SHIFT, CTRL = 8, 2


class Browser(Chromium):
    """Chromium with scripts; requests to other addresses than `origin` fail and are recorded in `refused`."""

    options = (*OPTIONS, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")

    def __init__(self, origin: str, width: int = 1280, height: int = 800, seconds: float = 20.0) -> None:
        super().__init__(seconds)
        self.origin, self.size = origin, (width, height)
        self.refused: list[str] = []
        self.reached: list[str] = []

    def begin(self, address: str, dark: bool = False) -> None:
        self.start()
        self.call("Emulation.setScriptExecutionDisabled", value=False)
        self.call("Runtime.enable")
        self.call("Log.enable")
        width, height = self.size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        if dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.load(address)

    def _handle(self, answer, stop):
        if answer.get("method") != "Fetch.requestPaused":
            return super()._handle(answer, stop)
        request = answer["params"]
        address = request["request"]["url"]
        fine = address.startswith((self.origin + "/", "data:"))
        (self.reached if fine else self.refused).append(address)
        self._number += 1
        method = "Fetch.continueRequest" if fine else "Fetch.failRequest"
        parameters = {"requestId": request["requestId"]} | ({} if fine else {"errorReason": "Aborted"})
        message = {"id": self._number, "method": method, "params": parameters, "sessionId": self._session}
        self._send(json.dumps(message).encode() + b"\0", stop)

    def run(self, script: str):
        """Return the value of a script in the page."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 300.0):
        """Wait until a script returns a true value."""
        stop = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > stop:
                raise AssertionError(f"{script} did not come true in {seconds:g} s")
            time.sleep(0.05)
        return value

    def wait_until_idle(self) -> None:
        """Wait until the pictures of the saved page are loaded or refused and the browser is idle."""
        self.wait("!frame.contentDocument || [...frame.contentDocument.images].every((image) => image.complete)")
        self.run("new Promise((resolve) => requestIdleCallback(resolve, {timeout: 5000})).then(() => true)")

    def press(self, key: str, modifiers: int = 0) -> None:
        about = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": KEYS.get(key, ord(key.upper()[0]))}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 and not modifiers else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def click(self, x: float, y: float, modifiers: int = 0) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            more = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, modifiers=modifiers, **more)

    def click_text(self, text: str, modifiers: int = 0) -> None:
        """Click on the middle of a text of the saved page."""
        point = self.run(
            f"""(() => {{
                const k = page.leaves.findIndex(([, text]) => text === {json.dumps(text)});
                if (k < 0) return null;
                const box = boxOf(page.leaves[k][0]);
                stage.scrollTop = Math.max(0, box.top * scale - 100);
                const corner = frame.getBoundingClientRect();
                const middle = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
                return [corner.left + middle[0] * scale, corner.top + middle[1] * scale];
            }})()"""
        )
        assert point, f"{text!r} is not on the page"
        self.click(*point, modifiers=modifiers)

    def where(self, text: str, last: bool = False) -> tuple[float, float]:
        """Return the window position of the first or last letter of a text within a leaf."""
        point = self.run(
            f"""(() => {{
                const k = page.leaves.findIndex(([, text]) => text.includes({json.dumps(text)}));
                const at = page.leaves[k][1].indexOf({json.dumps(text)}) + {len(text) - 1 if last else 0};
                const box = boxOf([page.leaves[k][0], at, page.leaves[k][0], at + 1]);
                const corner = frame.getBoundingClientRect();
                const middle = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
                return [corner.left + middle[0] * scale, corner.top + middle[1] * scale];
            }})()"""
        )
        return point[0], point[1]

    def drag(self, first: str, last: str) -> None:
        """Drag from the first letter of a text to the last letter of another."""
        x, y = self.where(first)
        end_x, end_y = self.where(last, last=True)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
        for share in (0.3, 0.7, 1.0):
            at = {"x": x + share * (end_x - x), "y": y + share * (end_y - y)}
            self.call("Input.dispatchMouseEvent", type="mouseMoved", **at, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end_x, y=end_y, button="left", clickCount=1)

    def tap(self, text: str, last: bool = False) -> None:
        """Tap with a finger on the first or last letter of a text of the saved page."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        x, y = self.where(text, last)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def tap_button(self, name: str) -> None:
        """Tap on a button of the panel, after opening the menu if the button is in it."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        box = f"document.getElementById({json.dumps(name)})"
        if self.run(f"{box}.closest('#menu') !== null && !document.getElementById('more').open"):
            self.run("document.getElementById('more').firstElementChild.id = 'open_more'")
            self.tap_button("open_more")
            self.wait("document.getElementById('more').open")
        self.run(f"{box}.scrollIntoView({{block: 'nearest'}})")
        x, y = self.run(f"(() => {{const r = {box}.getBoundingClientRect(); return [r.x + r.width / 2, r.y + 9];}})()")
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def slide(self, first: str, last: str) -> None:
        """Drag a finger from the first letter of a text to the last letter of another."""
        x, y = self.where(first)
        end_x, end_y = self.where(last, last=True)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        for share in (0.3, 0.7, 1.0):
            at = {"x": x + share * (end_x - x), "y": y + share * (end_y - y)}
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[at])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def double_click(self, text: str, modifiers: int = 0) -> None:
        """Double click on the first letter of a text."""
        x, y = self.where(text)
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self.call(
                    "Input.dispatchMouseEvent",
                    type=kind,
                    x=x,
                    y=y,
                    button="left",
                    clickCount=count,
                    modifiers=modifiers,
                )

    def screenshot(self, path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
