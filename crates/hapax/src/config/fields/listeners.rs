//! The listeners: `[edge]`, `[admin]` and `[api]`.

use super::*;
use crate::config::edge;
use crate::limits::{self, range};

sections! {
    /// The listener and what holds for every route.
    EDGE = "edge" {
        "listen": Text("address and port"), Is("127.0.0.1:8080"), restart =>
            "where the edge listens";
        "threads": Integer(&range::THREADS), Told("one per core"), restart =>
            "threads that serve requests";
        "tls": Table(&TLS), Absent, restart =>
            "certificate and key; without it the edge speaks plain HTTP";
        "drain_timeout": Duration(&range::DRAIN), Is("30s") =>
            "how long running requests may take when the process is told to end";
        "header_timeout": Duration(&range::TIMEOUT), Is("10s"), restart =>
            "how long the head of a request may take";
        "body_rate": Size(&range::BODY_RATE), Is("512B") =>
            "bytes per second; a body that comes more slowly is given up";
        "idle_timeout": Duration(&range::IDLE), Is("75s"), restart =>
            "the longest silence on a connection without a request, and the longest time in which a client takes nothing \
             of an answer; over h2 counted from when it has read what it was sent, at 8 KiB/s, at most 15 minutes later";
        "max_connections": Integer(&range::CONNECTIONS), Count(20_000), restart =>
            "connections at a time; one more is closed at once";
        "max_connections_per_address": Integer(&range::CONNECTIONS), Told("half of `max_connections`"), restart =>
            "connections of one address at a time (of IPv6: of one network of 64 bits) and never more than \
             `max_connections`, so that no peer takes the room of all; one more is closed at once. Raise it where all \
             callers come through one proxy. `hapax_connections_refused_total` counts both, by `limit`, and a warning names \
             the address, at most once a minute for each";
        "max_buffered": Size(&range::BUFFERED), Is("256MiB") =>
            "bytes of keyed requests and their answers held in memory at a time; a request without room is refused, an \
             answer never";
        "max_detached": Integer(&range::DETACHED), Count(10_000) =>
            "calls that go on without a caller";
        "operations_prefix": Text("path"), Is("/operations") =>
            "where outcomes are recalled by operation id";
        "recall_segment": Text("one segment of a path"), Is("by-idempotency-key") =>
            "what stands between a route's path and a key where outcomes are recalled by key";
        "docs": Text("URL with a slash at its end"), Is("/.well-known/hapax/errors/"), restart =>
            "where the pages about problem codes are: `type` of every problem leads there. The edge and the admin listener \
             serve them at the default";
        "cors": Table(&CORS), Absent =>
            "what browsers of other origins may do; without it, nothing";
        "max_request_body": Size(&range::BODY), Is("1MiB") =>
            "the longest body of a keyed request; never more than `max_buffered`";
        "max_kept_response": Size(&range::KEPT_RESPONSE), Is("1MiB") =>
            "a longer answer is passed on once, and only the fact is kept";
        "attach": Words(&words(&edge::ATTACH)), Is("wait") =>
            "what a second caller does while the first one runs";
        "attach_timeout": Duration(&range::ATTACH), Is("30s") =>
            "how long a second caller waits";
        "mismatch_status": Numbers(&[422, 409]), Count(422) =>
            "the status of a key that was used for another request";
    }
    /// Certificate and key.
    TLS = "edge.tls" {
        "cert": Text("file"), Required =>
            "the certificate chain, PEM; the file is read again on reload";
        "key": Text("file"), Required =>
            "its private key, PEM; the file is read again on reload";
    }
    /// What browsers of other origins may do.
    CORS = "edge.cors" {
        "origins": List("strings", UNBOUNDED), Required =>
            "origins as browsers send them, such as `\"https://shop.example\"`: in small letters, without the usual port; \
             `\"*\"` for any";
        "headers": List("strings", UNBOUNDED), Empty =>
            "request headers beyond `Idempotency-Key`, `Authorization`, `Content-Type` and `Prefer`";
        "credentials": Flag, Bool(false) =>
            "whether cookies and credentials are allowed; not together with `\"*\"`";
        "max_age": Duration(&range::CORS_MAX_AGE), Lasts(limits::CORS_MAX_AGE) =>
            "how long a browser may remember the answer";
    }
    /// The operators' listener.
    ADMIN = "admin" {
        "listen": Text("address and port"), Is("127.0.0.1:8081"), restart =>
            "where it listens";
        "hosts": List("host names", UNBOUNDED), Empty, restart =>
            "names that it answers to, beside every address and `localhost`; a request with another name in `Host` is \
             refused (421); `/healthz` and `/readyz` answer to any name where it does not listen on loopback and no name is \
             stated here. So a page in an operator's browser cannot read it under a name of its own (DNS rebinding). Add \
             the name by which Prometheus or `--admin` of a command asks";
        "token_env": Text("variable"), Told("this, `token_file` or `tokens`"), shown_as("token") =>
            "the operators' token, when there is one: it is called `admin` and may decide";
        "token_file": Text("file"), Told("this, `token_env` or `tokens`"), shown_as("token") =>
            "the same from a file; read again on reload, and the former one ends with it";
        "tokens": Tables(&ADMIN_TOKEN), Absent =>
            "tokens with a name and a role each, as [`[[admin.tokens]]`](#admintokens)";
        "name": Characters(limits::NAME_LENGTH), Told("the machine's"), restart =>
            "what this process is called among others";
        "label": Characters(limits::NAME_LENGTH), Absent, restart =>
            "what the installation is called, such as `\"prod-eu\"`: the console shows it on every page";
        "links": Tables(&ADMIN_LINK), Absent, restart =>
            "other tools that know more, as [`[[admin.links]]`](#adminlinks)";
        "console": Flag, Bool(true), restart =>
            "whether the [console](../guides/console.md) is served at `/`";
        "tls": Table(&ADMIN_TLS), Told("plain HTTP"), restart =>
            "certificate and key, as [`[admin.tls]`](#admintls)";
    }
    /// A token of an operator.
    ADMIN_TOKEN = "admin.tokens" {
        "name": Characters(limits::NAME_LENGTH), Required =>
            "whose it is, such as `\"night-shift\"`";
        "role": Words(&["read", "operate"]), Required =>
            "`read` looks, but sees no kept answers and no secrets; `operate` decides as well";
        "env": Text("variable"), Told("this or `file`") =>
            "the token";
        "file": Text("file"), Told("this or `env`"), shown_as("env") =>
            "the token";
    }
    /// Another tool that knows more.
    ADMIN_LINK = "admin.links" {
        "name": Characters(limits::NAME_LENGTH), Required =>
            "what the tool is called, such as `\"Trace\"`";
        "url": Text("http(s) URL"), Required =>
            "where it is; `{operation_id}`, `{trace_id}`, `{tenant}`, `{project}`, `{key}`, `{from}` and `{to}` in it are \
             filled in, percent-encoded. A link is \
             shown where all of its places are known; `{trace_id}` is that of no claim yet";
    }
    /// Certificate and key of the operators' listener.
    ADMIN_TLS = "admin.tls" {
        "cert": Text("file"), Required =>
            "the certificate chain, PEM; the file is read again on reload";
        "key": Text("file"), Required =>
            "its private key, PEM; the file is read again on reload";
    }
    /// The applications' listener.
    API = "api" {
        "listen": Text("address and port"), Is("127.0.0.1:8082") =>
            "where it listens";
        "hosts": List("host names", UNBOUNDED), Empty =>
            "names that it answers to, beside every address and `localhost`, as for [`[admin]`](#admin)";
    }
}
