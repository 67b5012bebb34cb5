//! `hapax webhooks show`, `deliveries` and `reopen`: what became of deliveries, and kept refusals that may run again (W8).

use clap::Args as ClapArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use hapax_api::{
    ClaimState, DeliveriesQuery, Delivery, Nothing, ReopenDeliveries, State, WebhookShown, operations as op,
};
use serde_json::json;

use super::Place;
use crate::cli::remote::Remote;
use crate::cli::{Failed, say};
use crate::limits;

const STATES: [(&str, State); 4] = [
    ("held", State::Held),
    ("settled", State::Settled),
    ("in_doubt", State::InDoubt),
    ("released", State::Released),
];

/// `hapax webhooks show`
#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// The webhook's id.
    id: String,
    #[command(flatten)]
    place: Place,
}

/// `hapax webhooks deliveries`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// The webhook's id.
    id: String,
    /// Only those in this state: held, settled, in_doubt or released.
    #[arg(long, value_parser = PossibleValuesParser::new(STATES.map(|(word, _)| word)).map(|word| state(&word)))]
    state: Option<State>,
    /// Only the one that its sender calls so; with a colon and the kind of event, where the provider has kinds.
    #[arg(long)]
    identifier: Option<String>,
    /// At most so many deliveries.
    #[arg(long, default_value_t = limits::PAGE)]
    limit: usize,
    /// Go on where an earlier list ended.
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax webhooks reopen`
#[derive(Debug, ClapArgs)]
pub(crate) struct Reopen {
    /// The webhook's id.
    id: String,
    /// Only what was answered since then: a time such as 2026-11-18T12:00:00Z, or so long ago, such as 2h.
    #[arg(long, value_name = "TIME")]
    since: String,
    /// Only answers of this status; without it, all of 4xx.
    #[arg(long, value_parser = clap::value_parser!(u16).range(400..=599))]
    status: Option<u16>,
    /// Why, for the audit.
    #[arg(long)]
    reason: String,
    /// Who decides, where that is not the token's own name.
    #[arg(long)]
    by: Option<String>,
    #[command(flatten)]
    place: Place,
}

fn state(word: &str) -> State {
    STATES.iter().find(|(name, _)| *name == word).map_or(State::Held, |(_, state)| *state)
}

impl Show {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let shown = remote.call::<op::ShowWebhook>(&self.id, &Nothing {}, &Nothing {}).await?;
        match self.place.json {
            true => say::json(&shown),
            false => tell(&shown),
        }
    }
}

fn tell(shown: &WebhookShown) -> Result<(), Failed> {
    let (webhook, counts) = (&shown.webhook, &shown.deliveries);
    let state = webhook.revoked_at.as_ref().map_or_else(|| "in use".into(), |at| format!("revoked {at}"));
    let mut rows = vec![
        ("id", webhook.webhook_id.clone()),
        ("whose", format!("{}/{}", webhook.tenant, webhook.project)),
        ("provider", webhook.provider.clone()),
        ("state", state),
        ("path", webhook.path.clone()),
        ("operation", webhook.operation.clone()),
        ("kept for", shown.retention.clone()),
        (
            "deliveries",
            format!(
                "{} settled, {} held, {} in doubt, {} released",
                counts.settled, counts.held, counts.in_doubt, counts.released
            ),
        ),
        ("content again", format!("{} (at this server, since it started)", shown.content_repeated)),
    ];
    let refused = shown.refused.iter().map(|refused| format!("{} {}", refused.count, refused.cause));
    let refused: Vec<_> = refused.collect();
    let refused = if refused.is_empty() { "none".to_owned() } else { refused.join(", ") };
    rows.push(("refused", format!("{refused} (at this server, since it started)")));
    let text: Vec<_> = rows.iter().map(|(name, value)| format!("{name:<14} {value}")).collect();
    say::data(text.join("\n"))?;
    if !shown.refusals.is_empty() {
        let rows = shown.refusals.iter();
        let rows =
            rows.map(|refusal| vec![refusal.at.to_string(), refusal.cause.clone(), refusal.why.clone()]);
        say::data(say::table(&["REFUSED AT", "CAUSE", "WHY"], &rows.collect::<Vec<_>>()))?;
    }
    Ok(())
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failed> {
        if !(1..=hapax_core::limits::MAX_PAGE).contains(&self.limit) {
            return Err(Failed::misuse("--limit takes 1 to 1000"));
        }
        let remote = Remote::new(&self.place.server)?;
        let has_no_kind = self.identifier.as_ref().is_some_and(|identifier| !identifier.contains(':'));
        let query = DeliveriesQuery {
            state: self.state,
            identifier: self.identifier,
            limit: Some(self.limit),
            after: self.after,
        };
        let page = remote.call::<op::ListDeliveries>(&self.id, &query, &Nothing {}).await?;
        if self.place.json {
            return say::json(&page);
        }
        if page.deliveries.is_empty() && page.next.is_none() {
            say::note("no such deliveries; `hapax webhooks show ID` tells of those that were refused");
            if has_no_kind {
                say::note("where the provider has kinds of events, say the kind, too, such as 72d3162e:push");
            }
        } else {
            let rows: Vec<_> = page.deliveries.iter().map(row).collect();
            say::data(say::table(&["CAME AT", "KEY", "STATE", "STATUS", "OPERATION ID"], &rows))?;
        }
        crate::cli::claims::damaged(&page.damaged);
        if let Some(next) = &page.next {
            say::note(format!("there are more: --after {next}"));
        }
        Ok(())
    }
}

fn row(delivery: &Delivery) -> Vec<String> {
    let state = match &delivery.state {
        ClaimState::Held { .. } => "held",
        ClaimState::Settled { .. } => "settled",
        ClaimState::InDoubt { .. } => "in_doubt",
        ClaimState::Released { .. } => "released",
    };
    vec![
        delivery.opened_at.to_string(),
        delivery.key.clone(),
        state.to_owned(),
        delivery.status.map(|status| status.to_string()).unwrap_or_default(),
        delivery.operation_id.to_string(),
    ]
}

impl Reopen {
    /// Page by page, until there is no more.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let mut asked = ReopenDeliveries {
            since: self.since,
            status: self.status,
            after: None,
            by: self.by,
            reason: self.reason,
        };
        let (mut reopened, mut left, mut damaged, mut more) = (0, 0, Vec::new(), true);
        for _ in 0..limits::REMOTE_PAGES {
            let page = remote.call::<op::ReopenDeliveries>(&self.id, &Nothing {}, &asked).await?;
            reopened += page.reopened;
            left += page.left;
            damaged.extend(page.damaged);
            more = page.next.is_some();
            asked.after = page.next;
            if !more {
                break;
            }
        }
        let told = match self.place.json {
            true => say::json(&json!({"reopened": reopened, "left": left, "damaged": damaged})),
            false => say::data(format!("{reopened} deliveries reopened; the sender's next tries run")),
        };
        told.map_err(|failed| failed.and(format!("{reopened} deliveries are reopened")))?;
        crate::cli::claims::damaged(&damaged);
        match (more, left) {
            (true, _) => Err(Failed::no("there are more: say it again")),
            (false, 0) => Ok(()),
            (false, _) => {
                Err(Failed::no(format!("{left} deliveries were changed by somebody else meanwhile")))
            }
        }
    }
}
