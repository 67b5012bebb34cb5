//! What comes from providers and what is dispatched at planned times: `[webhooks]` and `[[schedules]]`.

use super::*;
use crate::config::{rule, schedules, webhooks};
use crate::limits::{self, range};

sections! {
    /// Where deliveries of providers come in, and where they go.
    WEBHOOKS = "webhooks" {
        "prefix": Text("path"), Is("/webhooks") =>
            "deliveries come to `{prefix}/{provider}/{webhook_id}`";
        "upstream": Text("name"), Required =>
            "the service that gets verified deliveries";
        "path": Text("path with `{provider}` and `{webhook_id}`"), Required, of(Ledger) =>
            "where it gets them; the query goes along";
        "public_url": Text("URL without a path"), Absent =>
            "scheme and host that senders were given; Twilio signs them";
        "retention": Retention("class, ", &range::RETENTION), Lasts(limits::WEBHOOK_RETENTION) =>
            "how long outcomes are kept; never shorter than the time in which a provider may send a delivery again";
        "rerun": Words(&["unsafe", "safe"]), Is("safe"), of(Ledger) =>
            "may a delivery run again when nobody knows whether it ran";
        "keep": Words(&words(&rule::KEEPS)), Is("full"), of(Ledger) =>
            "how much of an answer is kept";
        "give_up": Duration(&range::GIVE_UP), Told("that of the upstream, else `\"15m\"`"), of(Ledger) =>
            "ends the call to the service";
        "wait": Duration(&range::TIMEOUT), Told("by provider") =>
            "how long a sender is kept waiting; the call goes on";
        "max_request_body": Size(&range::BODY), Told("that of `[edge]`") =>
            "the longest delivery";
        "max_kept_response": Size(&range::KEPT_RESPONSE), Told("that of `[edge]`") =>
            "a longer answer is passed on once, and only the fact is kept";
        "enabled": List("strings", UNBOUNDED), Told("all") =>
            "the providers whose deliveries are taken";
        "providers": Table(&WEBHOOK_PROVIDERS), Absent =>
            "providers of your own";
        "kv": Table(&WEBHOOK_KV), Absent =>
            "a store of secrets";
        "verify": Flag, Bool(false) =>
            "whether ids that the registry does not have are looked up in the service of [`[auth.verify]`](#authverify), \
             whose metadata then name `tenant_id`, `project_id` and `provider`; their secrets are in `kv`";
        "restate": Table(&HANDLER), Told("must be said for a cluster, in place of `path`") =>
            "the [handler](#routesrestate) that deliveries go to; in its name `{provider}` may stand";
    }
    /// Providers that the configuration declares.
    WEBHOOK_PROVIDERS = "webhooks.providers" {
        "<name>": Table(&WEBHOOK_PROVIDER), Absent =>
            "a provider that is not built in; at most 32 of `a-z`, `0-9`, `-` and `_`";
    }
    /// A declared provider.
    WEBHOOK_PROVIDER = "webhooks.providers.<name>" {
        "header": Text("header"), Required =>
            "the header with the signature";
        "prefix": Text("string"), Absent =>
            "what stands before the signature in it, such as `\"sha256=\"`";
        "hash": Words(&words(&webhooks::HASHES)), Is("sha256") =>
            "what HMAC is made with";
        "encoding": Words(&words(&webhooks::ENCODINGS)), Is("hex") =>
            "how the signature is written";
        "signed": Text("string"), Is("{body}") =>
            "what is signed: `{body}` once, and `{timestamp}` and `{id}` where those are signed, too";
        "timestamp_header": Text("header"), Absent =>
            "the header with the time of the signature, in Unix seconds; believed for 300 s both ways";
        "identifier": Table(&IDENTIFIER), Required =>
            "where a delivery's identifier stands";
        "identifier_signed": Flag, Bool(false) =>
            "whether the signature covers the identifier";
        "kind_header": Text("header"), Absent =>
            "the header with the kind of event, which is part of the identity. While claims rest on deliveries of the \
             provider, a reload changes neither it nor `identifier`; a start does, and deliveries that were done run again \
             where a sender repeats them";
        "wait": Duration(&range::TIMEOUT), Is("10s") =>
            "how long the sender waits";
        "window": Duration(&range::RETENTION), Is("24h") =>
            "for how long the sender may send a delivery again";
    }
    /// Where the identifier of a delivery stands.
    IDENTIFIER = "webhooks.providers.<name>.identifier" {
        "header": Text("header"), Absent =>
            "it stands in this header";
        "json": Text("JSON pointer"), Absent =>
            "it is a text in a JSON body";
        "form": Text("string"), Absent =>
            "it is a field of a form";
    }
    /// A store of secrets outside the registry.
    WEBHOOK_KV = "webhooks.kv" {
        "url": Text("URL"), Required =>
            "where the store is";
        "mount": Text("path"), Is("secret") =>
            "where the store is mounted";
        "token_file": Text("file"), Required =>
            "the token, read again for each question";
        "timeout": Duration(&range::TIMEOUT), Lasts(limits::VERIFY_TIMEOUT) =>
            "the longest wait for an answer";
    }
    /// What is dispatched at planned times.
    SCHEDULE = "schedules" {
        "id": Id(limits::SCHEDULE_ID_BYTES), Required =>
            "its name, which stands in the keys of its ticks: `sched.{id}.{unix_ms}`";
        "cron": Text("expression"), Told("this or `every`") =>
            "minute, hour, day, month and day of the week, with a second in front or a year behind if you like";
        "tz": Text("zone"), Is("UTC") =>
            "the zone whose clock the expression follows, such as `\"Europe/Berlin\"`";
        "every": Duration(&range::EVERY), Told("this or `cron`") =>
            "an interval; ticks are at its multiples since the Unix epoch";
        "route": Text("operation"), Required =>
            "the operation of the route that each tick calls: `REQUIRED_A` or `ACCEPTED`, of level project, not public, \
             with a path without parameters";
        "body": Text("table, array or string"), Absent =>
            "what each tick sends, at most 64KiB: tables and arrays as JSON, a string as it stands";
        "content_type": Text("text"), Told("`application/json`, or `text/plain; charset=utf-8` for a string") =>
            "the type of the body";
        "as": Table(&SCHEDULE_AS), Told("`tenant` and `project` of `[auth]`") =>
            "whose the ticks are; they come in as `service:scheduler`";
        "overlap": Words(&words(&schedules::OVERLAPS)), Is("allow") =>
            "what becomes of a tick while an earlier one has not ended";
        "catch_up": Integer(&range::CATCH_UP), Count(0) =>
            "how many ticks that were not dispatched in their time are dispatched late; the others are missed";
    }
    /// Whose the ticks of a schedule are.
    SCHEDULE_AS = "schedules.as" {
        "tenant": Text("name"), Required =>
            "the tenant";
        "project": Text("name"), Required =>
            "the project";
    }
}
