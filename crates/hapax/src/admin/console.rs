//! The console's files: served to browsers beside the API, with the strictest policy that a browser knows (M3).
//!
//! The files are those of `crates/hapax/console`, as they are in the program. They need no token, because they tell nothing: what a
//! page shows, it asks of the API. Their path has a digest of all of them, so that a browser may keep them for ever and never mixes two
//! versions; the page itself is never kept, and names the present digest.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest::{Context, SHA256, digest};
use axum::extract::Request;
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};

use crate::limits;
use crate::listen::mount::{Mount, Pages};
use crate::listen::refusal::Refusal;

/// A file of the console.
struct File {
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($path:literal,)+) => {
        /// All files, by their paths in `crates/hapax/console`.
        const FILES: &[File] = &[$(File { path: $path, bytes: include_bytes!(concat!("../../console/", $path)) },)+];
    };
}

files! {
    "api.js",
    "chart.js",
    "console.css",
    "copy.js",
    "data.js",
    "export.js",
    "exports.js",
    "frame.js",
    "html.js",
    "icon.svg",
    "icons.js",
    "index.html",
    "keys.js",
    "main.js",
    "pulse.js",
    "route.js",
    "search.js",
    "signin.js",
    "store.js",
    "text.js",
    "time.js",
    "ui.js",
    "words.js",
    "screens/answer.js",
    "screens/apikeys.js",
    "screens/attention.js",
    "screens/audit.js",
    "screens/batch.js",
    "screens/claim.js",
    "screens/claims.js",
    "screens/decision.js",
    "screens/delegated.js",
    "screens/desk.js",
    "screens/doubt.js",
    "screens/execution.js",
    "screens/executions.js",
    "screens/instance.js",
    "screens/overview.js",
    "screens/receipts.js",
    "screens/requests.js",
    "screens/retention.js",
    "screens/routes.js",
    "screens/schedules.js",
    "screens/step.js",
    "screens/timeline.js",
    "screens/verify.js",
    "screens/waiting.js",
    "screens/webhook.js",
    "screens/webhooks.js",
    "vendor/LICENSES",
    "vendor/SHA256SUMS",
    "vendor/hooks.mjs",
    "vendor/htm.mjs",
    "vendor/preact.mjs",
}

/// The page that a browser opens first.
const PAGE: &str = "index.html";
/// What stands in the page for the digest of all files.
const BUILD: &str = "ui/BUILD/";

/// What the page and its files may do: load from here and talk to here, and nothing else; text never becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Where the console's files come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Console {
    /// There is none.
    Off,
    /// As they are in the program.
    #[default]
    Built,
    /// From a folder, read anew each time, for those who work on them.
    Folder(PathBuf),
}

/// The digest of all files that are in the program.
static DIGEST: LazyLock<String> = LazyLock::new(|| {
    let mut sum = Context::new(&SHA256);
    for File { path, bytes } in FILES {
        sum.update(path.as_bytes());
        sum.update(&(bytes.len() as u64).to_be_bytes());
        sum.update(bytes);
    }
    short(sum.finish().as_ref())
});

/// The first half of a digest, in hexadecimal.
fn short(digest: &[u8]) -> String {
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Console {
    /// What stands in the paths of its files.
    pub(crate) fn build(&self) -> &str {
        match self {
            Console::Built => &DIGEST,
            // Read anew each time, so a digest would not hold.
            Console::Folder(_) | Console::Off => "dev",
        }
    }

    /// Serves the console beside a listener's API.
    pub(crate) fn serve<S, A>(self, mount: Mount<S, A>) -> Mount<S, A>
    where
        S: Clone + Send + Sync + 'static,
        A: crate::listen::mount::Authenticator,
    {
        if self == Console::Off {
            return mount;
        }
        let console = Arc::new(self);
        let pages = mount.pages();
        let page = answering(console.clone(), pages.clone(), true);
        mount.beside("/", page).beside("/ui/{build}/{*file}", answering(console, pages, false))
    }

    fn read(&self, path: &str) -> Option<Bytes> {
        match self {
            Console::Off => None,
            Console::Built => {
                FILES.iter().find(|file| file.path == path).map(|file| Bytes::from_static(file.bytes))
            }
            Console::Folder(folder) => read_from(folder, path),
        }
    }

    /// The page itself.
    fn page(&self) -> Result<Response<Bytes>, Refusal> {
        let page = self.read(PAGE).ok_or_else(missing)?;
        let text = String::from_utf8_lossy(&page).replace(BUILD, &format!("ui/{}/", self.build()));
        Ok(file(PAGE, text.into_bytes().into()))
    }

    /// One of its files.
    fn part(&self, path: &str, headers: &HeaderMap) -> Result<Response<Bytes>, Refusal> {
        let (build, name) =
            path.strip_prefix("/ui/").and_then(|path| path.split_once('/')).ok_or_else(missing)?;
        if build != self.build() || name == PAGE {
            return Err(missing());
        }
        let bytes = self.read(name).ok_or_else(missing)?;
        let tag = HeaderValue::try_from(format!("\"{}\"", short(digest(&SHA256, &bytes).as_ref())));
        let mut response = file(name, bytes);
        if let Ok(tag) = tag {
            if headers.get(IF_NONE_MATCH).is_some_and(|known| known == tag) {
                response = Response::new(Bytes::new());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
            }
            response.headers_mut().insert(ETAG, tag);
        }
        let kept = match self {
            Console::Folder(_) => "no-store",
            Console::Built | Console::Off => "public, max-age=31536000, immutable",
        };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(kept));
        Ok(response)
    }
}

fn answering(console: Arc<Console>, pages: Pages, page: bool) -> MethodRouter {
    get(move |request: Request| {
        let (console, pages) = (console.clone(), pages.clone());
        async move {
            let found = match page {
                true => console.page(),
                false => console.part(request.uri().path(), request.headers()),
            };
            pages.finished(found.map(guarded))
        }
    })
}

fn missing() -> Refusal {
    Refusal::not_found("the console has no such file; where it was updated, load the page again")
}

/// A file within a folder, if the path leads to one there.
fn read_from(folder: &Path, path: &str) -> Option<Bytes> {
    let within = Path::new(path);
    let plain = within.components().all(|part| matches!(part, Component::Normal(_)));
    let whole = folder.join(within);
    let fits = plain && std::fs::metadata(&whole).is_ok_and(|file| file.len() <= limits::CONSOLE_FILE_BYTES);
    if fits { std::fs::read(whole).ok().map(Bytes::from) } else { None }
}

fn file(path: &str, bytes: Bytes) -> Response<Bytes> {
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    };
    let length = HeaderValue::from(bytes.len());
    let mut response = Response::new(bytes);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
}

/// With what keeps other sites, and other people's text, out of the page.
fn guarded(mut response: Response<Bytes>) -> Response<Bytes> {
    let headers = response.headers_mut();
    let mut put =
        |name: HeaderName, value: &'static str| _ = headers.insert(name, HeaderValue::from_static(value));
    put(CONTENT_SECURITY_POLICY, POLICY);
    put(X_FRAME_OPTIONS, "DENY");
    put(REFERRER_POLICY, "no-referrer");
    put(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    put(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    put(HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files below a folder, by their paths in it.
    fn below(folder: &Path, within: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{within}{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => below(&entry.path(), &format!("{name}/"), found),
                false => found.push(name),
            }
        }
    }

    #[test]
    fn every_file_of_the_console_is_served_m3() {
        let mut found = Vec::new();
        below(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/console")), "", &mut found);
        found.sort();
        let mut known: Vec<_> = FILES.iter().map(|file| file.path.to_owned()).collect();
        known.sort();
        assert_eq!(found, known, "list the files in admin/console.rs");
    }

    #[test]
    fn a_folder_gives_what_is_in_it_and_nothing_else_m3() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ui")).unwrap();
        std::fs::write(folder.path().join("ui/main.js"), "1").unwrap();
        std::fs::write(folder.path().join("secret"), "2").unwrap();
        let inner = folder.path().join("ui");
        assert_eq!(read_from(&inner, "main.js").unwrap(), "1");
        for path in ["../secret", "/etc/hostname", "./../secret", "", "none.js"] {
            assert_eq!(read_from(&inner, path), None, "{path}");
        }
    }
}
