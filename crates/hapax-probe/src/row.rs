//! The rows of a probe: what each is called, what is asked of an API there, and how many requests it may send.

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Pass,
    /// It works; a careful API does it otherwise.
    Warn,
    /// Callers cannot rely on this API's keys.
    Fail,
    /// Something to know, neither good nor bad.
    Info,
    /// Nothing was found out, and why.
    NotTested,
}

impl Level {
    /// The word in reports; stable.
    pub fn word(self) -> &'static str {
        match self {
            Level::Pass => "pass",
            Level::Warn => "warn",
            Level::Fail => "fail",
            Level::Info => "info",
            Level::NotTested => "not-tested",
        }
    }
}

/// What was found out in a row.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How the row ended.
    pub level: Level,
    /// What was seen, for people.
    pub seen: String,
}

impl Finding {
    pub(crate) fn pass(seen: impl Into<String>) -> Self {
        Finding { level: Level::Pass, seen: seen.into() }
    }

    pub(crate) fn warn(seen: impl Into<String>) -> Self {
        Finding { level: Level::Warn, seen: seen.into() }
    }

    pub(crate) fn fail(seen: impl Into<String>) -> Self {
        Finding { level: Level::Fail, seen: seen.into() }
    }

    pub(crate) fn info(seen: impl Into<String>) -> Self {
        Finding { level: Level::Info, seen: seen.into() }
    }

    pub(crate) fn not_tested(why: impl Into<String>) -> Self {
        Finding { level: Level::NotTested, seen: why.into() }
    }
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The first request with a key, and one with another.
    First,
    /// Whether two executions can be told apart.
    Distinct,
    /// The same request again.
    Replay,
    /// Whether a replay says that it is one.
    Marker,
    /// The key with another body.
    OtherBody,
    /// A retry while the first request runs.
    InFlight,
    /// A request without a key.
    Missing,
    /// Keys that are no keys.
    Malformed,
    /// The same key in quotes and without.
    Forms,
    /// Two keys in one request.
    Duplicated,
    /// A key without a character.
    Empty,
    /// A key that is too long.
    TooLong,
    /// Many requests at once with one key.
    Race,
    /// Another caller with the same key.
    OtherCaller,
    /// The key on another path.
    OtherPath,
    /// A refused request, and its retry.
    Refused,
    /// Whether errors say when to come back.
    RetryAfter,
    /// Whether errors are written for programs.
    Problem,
    /// Whether errors link to documentation.
    Docs,
}

impl Row {
    /// All rows, in the order in which they are tested: later ones use what earlier ones found out.
    pub const ALL: [Row; 19] = [
        Row::First,
        Row::Distinct,
        Row::Replay,
        Row::Marker,
        Row::OtherBody,
        Row::InFlight,
        Row::Missing,
        Row::Malformed,
        Row::Forms,
        Row::Duplicated,
        Row::Empty,
        Row::TooLong,
        Row::Race,
        Row::OtherCaller,
        Row::OtherPath,
        Row::Refused,
        Row::RetryAfter,
        Row::Problem,
        Row::Docs,
    ];

    /// The whole table: a stable word, a title, and what is asked.
    fn told(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Row::First => {
                ("first", "a fresh key is accepted", "draft-07: process the first request as usual")
            }
            Row::Distinct => (
                "distinct",
                "two keys, two answers",
                "not in the draft: what tells one execution from another in answers, such as a new id",
            ),
            Row::Replay => (
                "replay",
                "a retry gets the first answer",
                "draft-07: answer a retry with the result of the completed operation",
            ),
            Row::Marker => (
                "marker",
                "a replay says that it is one",
                "not in the draft; usual: a header such as Idempotent-Replayed",
            ),
            Row::OtherBody => (
                "other-body",
                "the key with another body",
                "draft-07: 422 when a key is reused with another payload",
            ),
            Row::InFlight => (
                "other-body-in-flight",
                "the same while the first runs",
                "draft-07: 422 for another payload, 409 while the first is in progress",
            ),
            Row::Missing => ("missing", "no key", "draft-07: 400 where a key is required"),
            Row::Malformed => (
                "malformed",
                "a key that cannot be read",
                "draft-07: the value is a structured-field string; 400 for what is none",
            ),
            Row::Forms => (
                "forms",
                "quoted and bare are one key",
                "draft-07: the quoted form; where the bare one is taken too, it is the same key",
            ),
            Row::Duplicated => (
                "duplicated",
                "two header lines",
                "draft-07: one item, so 400 for two lines; nothing may run",
            ),
            Row::Empty => {
                ("empty", "an empty key", "400; never a key that everybody shares, never unprotected work")
            }
            Row::TooLong => ("too-long", "a key of 10,000 characters", "4xx; never 5xx, and nothing may run"),
            Row::Race => (
                "race",
                "many at once with one key",
                "draft-07: one runs; the others get its answer, or 409 while it runs",
            ),
            Row::OtherCaller => (
                "other-caller",
                "another caller's key",
                "draft-07, security: a key belongs to its client; never another caller's answer",
            ),
            Row::OtherPath => {
                ("other-path", "the key on another path", "never the answer of another operation")
            }
            Row::Refused => (
                "refused",
                "a refusal, and its retry",
                "draft-07: results are replayed, errors too; many APIs look again instead",
            ),
            Row::RetryAfter => ("retry-after", "when to come back", "409, 429 and 503 say it in Retry-After"),
            Row::Problem => {
                ("problem", "errors for programs", "draft-07: errors in application/problem+json (RFC 9457)")
            }
            Row::Docs => {
                ("docs", "errors link to documentation", "draft-07: errors carry a link to the documentation")
            }
        }
    }

    /// The stable word.
    pub fn id(self) -> &'static str {
        self.told().0
    }

    /// One line for people.
    pub fn title(self) -> &'static str {
        self.told().1
    }

    /// What is asked of the API.
    pub fn asks(self) -> &'static str {
        self.told().2
    }

    /// How many requests it sends at most; `race` is how many at once.
    pub fn requests(self, race: usize) -> usize {
        match self {
            Row::Marker | Row::RetryAfter | Row::Problem => 0,
            Row::Distinct | Row::Replay | Row::Missing => 1,
            Row::Forms | Row::Duplicated | Row::TooLong | Row::Docs => 1,
            Row::First | Row::OtherBody | Row::InFlight | Row::Malformed | Row::Empty => 2,
            Row::OtherCaller | Row::OtherPath => 2,
            Row::Refused => 3,
            // One more afterwards: what the key stands for when all is over.
            Row::Race => race + 1,
        }
    }
}
