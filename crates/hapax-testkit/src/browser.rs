//! A real browser: Debian's chromium, driven over DevTools messages on a pipe (JSON that ends with NUL).
//!
//! A pipe needs no WebSocket and no driver whose version must be the browser's. The browser reads messages from descriptor 3 and
//! writes them to 4; a shell puts its standard input and output there. Keys and the mouse are real events, not calls in a script.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

use std::cell::{Cell, RefCell};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than anything here takes, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(20);

const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
];

/// A browser process with a profile of its own; ends when dropped.
pub struct Browser(Rc<Process>);

struct Process {
    child: RefCell<Child>,
    to: RefCell<ChildStdin>,
    from: Receiver<Value>,
    last: Cell<u64>,
    events: RefCell<Vec<Value>>,
    profile: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

impl Process {
    fn call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.borrow_mut().write_all(&bytes).map_err(|error| format!("the browser has ended: {error}"))?;
        let began = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let mut told = match self.from.recv_timeout(left) {
                Ok(told) => told,
                Err(RecvTimeoutError::Timeout) => return Err(format!("{method}: no answer")),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("{method}: the browser has ended"));
                }
            };
            if told["id"] != id {
                self.events.borrow_mut().push(told);
            } else if told["error"].is_null() {
                return Ok(told["result"].take());
            } else {
                return Err(format!("{method}: {}", told["error"]["message"]));
            }
        }
    }
}

impl Browser {
    /// Starts one.
    pub fn start() -> Browser {
        let unique = format!("hapax-browser-{}-{:?}", std::process::id(), Instant::now());
        let profile =
            std::env::temp_dir().join(unique.replace(|char: char| !char.is_ascii_alphanumeric(), "-"));
        std::fs::create_dir_all(&profile).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >&2"#, "sh", "chromium"]).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("sh starts chromium; `cargo xtask test` installs it");
        let (to, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                bytes.pop();
                if sender.send(serde_json::from_slice(&bytes).unwrap_or_default()).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        Browser(Rc::new(Process {
            child: RefCell::new(child),
            to: RefCell::new(to),
            from,
            last: Cell::new(0),
            events: RefCell::default(),
            profile,
        }))
    }

    /// A page in a context of its own: it shares neither storage nor channels with others.
    pub fn page(&self) -> Page {
        let context = self.0.call(None, "Target.createBrowserContext", json!({})).unwrap();
        self.tab(&context["browserContextId"])
    }

    fn tab(&self, context: &Value) -> Page {
        let about = json!({"url": "about:blank", "browserContextId": context});
        let target = self.0.call(None, "Target.createTarget", about).unwrap()["targetId"].clone();
        let attach = json!({"targetId": target, "flatten": true});
        let session = self.0.call(None, "Target.attachToTarget", attach).unwrap();
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let page = Page { browser: Browser(self.0.clone()), session, context: context.clone() };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.size(1440, 1000);
        page
    }
}

/// A page.
pub struct Page {
    browser: Browser,
    session: String,
    context: Value,
}

/// Keys that are more than a letter: name, code, text.
fn key_of(name: &str) -> (&str, u32, &str) {
    match name {
        "Enter" => ("Enter", 13, "\r"),
        "Tab" => ("Tab", 9, ""),
        "Escape" => ("Escape", 27, ""),
        "ArrowDown" => ("ArrowDown", 40, ""),
        "ArrowUp" => ("ArrowUp", 38, ""),
        "ArrowRight" => ("ArrowRight", 39, ""),
        "ArrowLeft" => ("ArrowLeft", 37, ""),
        "Space" => (" ", 32, " "),
        letter => {
            (letter, letter.bytes().next().map_or(0, |byte| u32::from(byte.to_ascii_uppercase())), letter)
        }
    }
}

impl Page {
    /// A message to this page; what comes back.
    pub fn call(&self, method: &str, params: Value) -> Value {
        self.browser.0.call(Some(&self.session), method, params).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Another tab of the same context.
    pub fn tab(&self) -> Page {
        self.browser.tab(&self.context)
    }

    /// Goes to an address.
    pub fn open(&self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// The value of an expression, awaited.
    pub fn eval(&self, expression: &str) -> Value {
        self.try_eval(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn try_eval(&self, expression: &str) -> Result<Value, String> {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut told = self.browser.0.call(Some(&self.session), "Runtime.evaluate", asked)?;
        match told["exceptionDetails"].is_null() {
            true => Ok(told["result"]["value"].take()),
            false => Err(told["exceptionDetails"]["exception"]["description"].to_string()),
        }
    }

    /// The text of an expression.
    pub fn text(&self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true. An exception means that it is not, yet.
    pub fn wait(&self, expression: &str) {
        let began = Instant::now();
        while !self.try_eval(&format!("Boolean({expression})")).is_ok_and(|value| value == true) {
            if began.elapsed() > PATIENCE {
                let shown = self.try_eval("location.href + '\\n' + document.body.innerText");
                panic!(
                    "it does not come to this: {expression}\n{}",
                    shown.unwrap_or_default().as_str().unwrap_or_default()
                );
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until the page shows this text.
    pub fn shows(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Presses a key: a letter, `Enter`, `Ctrl+Enter`.
    pub fn press(&self, name: &str) {
        let (modifiers, name) = name.strip_prefix("Ctrl+").map_or((0, name), |name| (2, name));
        let (key, code, text) = key_of(name);
        let mut down =
            json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers});
        if modifiers == 0 && !text.is_empty() {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        );
    }

    /// Types a text into what has the focus.
    pub fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Clicks on the middle of the first element that fits, once it is there and can be clicked on.
    pub fn click(&self, selector: &str) {
        let find = format!("document.querySelector({})", json!(selector));
        self.click_on(&find);
    }

    /// The same for a button or a link with this text.
    pub fn click_text(&self, text: &str) {
        let all = "[...document.querySelectorAll('button, a, label, [role=option]')]";
        let shown =
            format!("one => one.checkVisibility() && one.innerText.trim().startsWith({})", json!(text));
        self.click_on(&format!(
            "({all}.filter({shown}).findLast(one => one.closest('dialog[open]')) ?? {all}.find({shown}))"
        ));
    }

    fn click_on(&self, find: &str) {
        self.wait(&format!("{find} && !{find}.disabled && {find}.checkVisibility()"));
        let place = format!(
            "(() => {{ const one = {find}; one.scrollIntoView({{block: 'center'}}); const box = one.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.eval(&place);
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// The size of the window.
    pub fn size(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// `light` or `dark`, as the system would say it.
    pub fn theme(&self, theme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Keeps a picture of the whole page.
    pub fn screenshot(&self, path: &Path) {
        let told =
            self.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, decode(told["data"].as_str().unwrap())).unwrap();
    }

    /// What was told of this page so far by events of this method, such as `Network.requestWillBeSent`.
    pub fn events(&self, method: &str) -> Vec<Value> {
        // Whatever is on its way is read together with this answer.
        self.eval("0");
        let events = self.browser.0.events.borrow();
        let mine =
            events.iter().filter(|event| event["sessionId"] == *self.session && event["method"] == method);
        mine.map(|event| event["params"].clone()).collect()
    }

    /// Errors that the page or the browser has reported: exceptions, refusals of the policy, `console.error`.
    pub fn complaints(&self) -> Vec<String> {
        let thrown = self
            .events("Runtime.exceptionThrown")
            .into_iter()
            .map(|event| event["exceptionDetails"].to_string());
        let logged = self.events("Log.entryAdded").into_iter();
        // A "no" of the API is reported, too; screens show it.
        let logged = logged
            .filter(|event| event["entry"]["level"] == "error" && event["entry"]["source"] != "network");
        thrown.chain(logged.map(|event| event["entry"]["text"].to_string())).collect()
    }
}

/// Base64, as the browser writes it.
fn decode(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let text: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for part in text.chunks(4) {
        let bits = part.iter().fold(0, |bits, byte| bits << 6 | value(*byte)) << (6 * (4 - part.len()));
        bytes.extend(bits.to_be_bytes().iter().skip(1).take(part.len() - 1));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_every_padding() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg==", b"f"), ("Zm8=", b"fo"), ("Zm9v", b"foo"), ("+/+/", &[0xfb, 0xff, 0xbf])]
        {
            assert_eq!(decode(text), bytes, "{text}");
        }
    }
}
