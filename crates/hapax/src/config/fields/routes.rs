//! Where requests go and how they are protected: `[upstreams]`, `[[routes]]` and `[[openapi]]`.

use super::*;
use crate::config::{cluster, edge, handler, keys, route, rule, upstream};
use crate::limits::{self, range};

sections! {
    /// The services behind.
    UPSTREAMS = "upstreams" {
        "<name>": Table(&UPSTREAM), Absent =>
            "a service behind: a name of `a-z`, `0-9`, `-`, `_` that starts with a letter";
    }
    /// A service behind.
    UPSTREAM = "upstreams.<name>" {
        "kind": Words(&words(&upstream::KINDS)), Is("http") =>
            "how it is called: as a service, or as a [Restate cluster](../guides/restate.md), which keeps the claims of \
             its routes itself. Where a meaning begins with one of the two kinds, only that kind has the field";
        "url": Text("URL"), Required, of(Only("http")) =>
            "where it is; a path in it stands before every forwarded path, and before that of `reconcile`";
        "timeout": Duration(&range::TIMEOUT), Is("10s") =>
            "ends the caller's wait; the call goes on. A ledger that has not said by then whose turn it is counts as away \
             (`ledger-unavailable`). Of a service that has answered by then, what the ledger makes of it is waited for, up \
             to 15s more. An answer to a keyed request that is passed on as it comes (one that is not kept, or not whole) \
             breaks off when nothing of it has come for so long";
        "give_up": Duration(&range::GIVE_UP), Told("by rerun"), of(Only("http")),
            never_shown("it is shown with each route that takes it") =>
            "ends the call: the `give_up` of routes that do not say their own";
        "connect_timeout": Duration(&range::TIMEOUT), Is("3s") =>
            "the longest time to connect";
        "upstream_key": Words(&words(&upstream::SENT)), Is("namespaced"), of(Only("http")) =>
            "what is sent on as `Idempotency-Key`";
        "digest_chars": Numbers(&[32, 40, 64]), Count(64), of(Only("http")) =>
            "the length of a digest";
        "retry": Table(&RETRY), Absent =>
            "what is tried again before a caller hears of it";
        "max_connections": Integer(&range::CONNECTIONS), Count(1_024) =>
            "connections at a time, each thread";
        "idle_timeout": Duration(&range::IDLE), Is("30s") =>
            "how long an unused connection is kept";
        "reuse": Flag, Bool(true), of(Only("http")) =>
            "whether a connection carries more than one request; see below";
        "ca": Text("file"), Told("the system's") =>
            "certificates to trust instead, PEM; only with https";
        "ingress": OneOrList("URL", limits::CLUSTER_NODES), Required, of(Only("restate")) =>
            "where calls go, tried in turn with the same key: the next one after 429, 503 or no whole answer";
        "admin": OneOrList("URL", limits::CLUSTER_NODES), Required, of(Only("restate")) =>
            "its admin API: journals and states are read there, and operators decide there";
        "classify": Words(&words(&cluster::CLASSIFY)), Is("exact"), of(Only("restate")) =>
            "how sure it must be whose execution an answer is. `\"marker\"` takes one round trip; two callers at once, at \
             two instances, with one key and different bodies may then get one answer";
        "headers": List("header names", limits::CLUSTER_HEADERS),
            Told("`[\"traceparent\", \"tracestate\"]`"), of(Only("restate")) =>
            "headers of callers that handlers get to see; the journal keeps them, so `Authorization`, `Cookie` and \
             `X-Api-Key` are refused. Where `X-Tenant-Id`, `X-Project-Id` and `X-Subject` are named, hapax writes them: \
             they say who asks";
        "suspend_after": Integer(&range::SUSPEND_AFTER), Count(5), of(Only("restate")) =>
            "failures in a row after which a node is asked nothing";
        "suspend_for": Duration(&range::SUSPEND_FOR), Is("5s"), of(Only("restate")) =>
            "for how long; then one request asks it whether it is back";
    }
    /// What is tried again.
    RETRY = "upstreams.<name>.retry" {
        "max_attempts": Integer(&range::ATTEMPTS), Required =>
            "attempts in all";
        "backoff": Duration(&range::BACKOFF), Is("100ms") =>
            "the pause after the first attempt; doubled after each further one, up to 5s or the first one if that is longer";
        "on_exhausted": Words(&words(&upstream::EXHAUSTED)), Is("kill") =>
            "when no attempt worked, be it the only one: end as a failed attempt does, or leave the claim in doubt, with \
             the reason `paused`, until an operator decides. No attempt worked where the service could not be reached, \
             broke off, gave half an answer, or none before `give_up`, whatever `rerun` is; with `rerun = \"ask\"` it is \
             not asked then. An answer of status 5xx is an answer: `on_5xx` is about those";
    }
    /// A route.
    ROUTE = "routes" {
        "method": Text("method in capitals, or `\"*\"`"), Required =>
            "the method; `\"*\"` for the catch-all only";
        "path": Text("path"), Required =>
            "the path; `{name}` stands for a segment or a part of one, `/{*rest}` for everything that no other route \
             takes. A segment that is a parameter elsewhere (`:id`, `*`) is a mistake";
        "operation": Text("name"), Told("must be said where there are keys") =>
            "what the operation is called: unique. Its claims are kept under the first name that it had; see \
             [below](#names-of-operations)";
        "was": OneOrList("name", limits::FORMER_NAMES), Absent, of(Keyed) =>
            "the names that the operation had before, the newest first; its claims stay what they are. `[]` says that it \
             had none, and that its keys are new although the method and path had another operation; see \
             [below](#names-of-operations)";
        "policy": Words(&["REQUIRED_A", "REQUIRED_B", "ACCEPTED", "HANDLER_INTERNAL_C", "PROHIBITED"]),
            Told("must be said; `\"PROHIBITED\"` for the catch-all and for levels tenant and platform") =>
            "what is demanded of a key: it is sent, found by `identifier`, sent or not, the handler's own affair, or \
             refused";
        "lenient": Flag, Bool(false) =>
            "a prohibited key is ignored instead of refused";
        "public": FlagOr(route::SHARED_KEYS), Bool(false) =>
            "every caller comes in; `true` without keys, `\"shared-keys\"` with them";
        "recall": Flag, Told("`true`; `false` for the catch-all and public routes"), of(Keyed) =>
            "whether outcomes are recalled by key below the path";
        "level": Words(&words(&route::LEVELS)), Is("project") =>
            "whom the route belongs to; part of what its claims are identified by";
        "upstream": Text("name"), Required =>
            "where it goes";
        "retention": Retention("class, ", &range::RETENTION), Told("the default class"), of(Keyed) =>
            "how long an outcome is kept, counted from when it was recorded";
        "rerun": Words(&words(&rule::RERUNS)), Is("unsafe"), of(Ledger) =>
            "may the work run again when nobody knows whether it ran";
        "quiet": Duration(&range::QUIET), Is("0s"), of(Ledger) =>
            "with `rerun = \"safe\"`: how long a former run must have been silent; also keeps `retry` of the upstream from \
             sending again what may have arrived";
        "reconcile": Text("path"), Told("must be said with `rerun = \"ask\"`"), of(Ledger) =>
            "the path of the upstream that knows whether an earlier attempt happened; what it has not said within 5s, it \
             does not know";
        "scope": Words(&words(&rule::WIDTHS)), Is("subject"), of(Keyed) =>
            "who shares an outcome; part of what its claims are identified by";
        "fingerprint": Words(&words(&rule::FINGERPRINTS)), Is("raw"), of(Keyed) =>
            "what a retry is compared by, to tell it from another request; see below";
        "ignore": List("JSON pointers", UNBOUNDED), Empty, of(Keyed) =>
            "with `fingerprint = \"json\"`: parts of a body that do not matter";
        "fingerprint_headers": List("header names", UNBOUNDED), Empty, of(Keyed) =>
            "headers that are compared as well; none that does not go on as it came, such as `Idempotency-Key`, \
             `x-tenant-id` and `Accept-Encoding`, nor `Authorization`, which may be renewed between a request and its \
             retry";
        "timeout": Duration(&range::TIMEOUT), Told("the upstream's"), of(Keyed) =>
            "ends the caller's wait; the call goes on";
        "give_up": Duration(&range::GIVE_UP),
            Told("the upstream's; else `\"15m\"`, and `timeout` where rerun is safe"), of(Ledger) =>
            "ends the call; never shorter than `timeout`";
        "max_run": Duration(&range::MAX_RUN), Told("`\"1h\"`, or `give_up` if that is longer"), of(Ledger) =>
            "how long one attempt may be renewed; never shorter than `give_up`";
        "doubt": Table(&DOUBT), Told("a doubt stays"), of(Ledger) =>
            "what becomes of a doubt that nobody resolves";
        "attach": Words(&words(&edge::ATTACH)), Told("the edge's"), of(Keyed) =>
            "what a second caller does while the first one runs";
        "attach_timeout": Duration(&range::ATTACH), Told("the edge's"), of(Keyed) =>
            "how long a second caller waits";
        "keep": Words(&words(&rule::KEEPS)), Is("full"), of(Ledger) =>
            "how much of an answer is kept: all, status and headers (a replay has no body and says so in \
             `Idempotency-Body-Not-Kept`, unless there was none), or that it happened";
        "on_5xx": Words(&words(&rule::ON_5XX)), Told("by rerun and status"), of(Ledger) =>
            "what is done with answers of status 5xx";
        "mismatch_status": Numbers(&[422, 409]), Told("the edge's"), of(Keyed) =>
            "the status of a key that was used for another request";
        "max_request_body": Size(&range::BODY), Told("the edge's"), of(Keyed) =>
            "the longest body";
        "max_kept_response": Size(&range::KEPT_RESPONSE), Told("the edge's"), of(Keyed) =>
            "the longest answer that is kept";
        "restate": Table(&HANDLER), Told("must be said for a cluster") =>
            "the [handler](#routesrestate) that it leads to";
        "key": TableOrTables(&KEY), Told("`Idempotency-Key` alone"), of(Keyed) =>
            "other places that a key may stand in; see [below](#routeskey)";
        "identifier": Table(&ROUTE_IDENTIFIER), Told("must be said with `\"REQUIRED_B\"`"), of(Keyed) =>
            "where the sender's identifier stands, which is the key; see [below](#routesidentifier)";
        "key_grammar": Words(&words(&keys::GRAMMARS)), Is("plain"), of(Keyed) =>
            "what a key consists of: 1 to 255 of `A-Z a-z 0-9 . _ ~ -`, not only dots; or printable ASCII without space, \
             comma and quote, not beginning with `t-`. Of the latter, what is not plain is percent-encoded in the \
             namespaced form, 255 counts what is encoded, and a key with such a character is recalled by operation id only";
        "key_from": Words(&["fingerprint"]), Absent, of(Ledger) =>
            "with `policy = \"ACCEPTED\"` and a stated `rerun`: without a key, what is asked is the key";
        "window": Duration(&range::WINDOW), Lasts(limits::WINDOW), of(Ledger) =>
            "with `key_from`: how long, counted from the start of the attempt whose answer is kept; for a doubt, from the \
             doubt. Longer than `give_up`: the window must not be over before the work has ended";
    }
    /// The handler of a cluster.
    HANDLER = "routes.restate" {
        "service": Text("name"), Required =>
            "the service, object or workflow, as it is registered";
        "handler": Text("name"), Required =>
            "its handler";
        "key": Text("`\"{parameter}\"` of the path, or a JSON pointer"), Absent =>
            "what names the object or the workflow";
        "workflow": Flag, Bool(false) =>
            "whether it is a workflow, whose handler `run` takes no key: such a route is `PROHIBITED`";
        "input": Words(&words(&handler::INPUTS)), Is("json") =>
            "what the handler takes; another body is 400";
        "envelope": Flag, Bool(false) =>
            "whether its answers say status, headers and fingerprint themselves";
    }
    /// Where a key may stand.
    KEY = "routes.key" {
        "header": Text("header name"), Absent =>
            "a header that carries nothing but the key, quoted or bare";
        "json": Text("JSON pointer"), Absent =>
            "a member of a JSON body";
    }
    /// Where a sender's identifier stands.
    ROUTE_IDENTIFIER = "routes.identifier" {
        "header": Text("name"), Told("one of the three") =>
            "the header with the identifier; none that hapax or HTTP gives another meaning";
        "json": Text("JSON pointer"), Told("one of the three") =>
            "the member of a JSON body";
        "form": Text("name"), Told("one of the three") =>
            "the field of a form (`application/x-www-form-urlencoded`)";
    }
    /// What becomes of a doubt that nobody resolves.
    DOUBT = "routes.doubt" {
        "after": Duration(&range::DOUBT), Required =>
            "how long a doubt lasts at most";
        "then": Words(&words(&rule::ENDS)), Required =>
            "the work may run again, or the claim is forgotten with its fingerprint";
    }
    /// An OpenAPI document to read routes from.
    OPENAPI = "openapi" {
        "file": Text("file"), Required, never_shown("the routes of the document are shown") =>
            "the document, `.json`, `.yaml` or `.yml`";
        "upstream": Text("name"), Required, never_shown("the routes of the document are shown") =>
            "where its routes go";
        "prefix": Text("path"), Absent, never_shown("the routes of the document are shown") =>
            "what stands before every path of the document";
        "default_policy": Words(&["REQUIRED_A", "REQUIRED_B", "ACCEPTED", "HANDLER_INTERNAL_C", "PROHIBITED"]),
            Absent, never_shown("the routes of the document are shown") =>
            "the policy of every `PUT`, `POST`, `DELETE` and `PATCH` that says none";
        "recall": Flag, Bool(true), never_shown("the routes of the document are shown") =>
            "`recall` of the keyed routes that do not say it";
    }
}
