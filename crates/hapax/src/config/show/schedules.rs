//! `[[schedules]]` as they take effect.

use std::time::Duration;

use super::super::schedules::OVERLAPS;
use super::{Section, word};
use crate::schedules::{Schedule, Timing};

/// A body is shown as the text that is sent.
pub(super) fn shown(schedule: &Schedule) -> Section {
    let mut section = Section::default();
    section.text("id", &*schedule.id);
    match &schedule.timing {
        Timing::Cron { cron, tz, .. } => section.text("cron", cron).text("tz", tz),
        Timing::Every { every_ms } => section.duration("every", Duration::from_millis(*every_ms)),
    };
    section.text("route", &schedule.operation);
    if !schedule.body.is_empty() {
        section.text("body", &schedule.body);
    }
    section.maybe(schedule.content_type.as_ref(), |section, kind| _ = section.text("content_type", kind));
    let mut whose = Section::default();
    whose.text("tenant", schedule.tenant.as_str()).text("project", schedule.project.as_str());
    section.table("as", whose);
    section.text("overlap", word(&OVERLAPS, &schedule.overlap)).number("catch_up", schedule.catch_up);
    section
}
