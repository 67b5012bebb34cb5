//! What a process has served and would not serve any more, beside whole operations: endpoints that would take no keys, and providers of
//! webhooks (P5). Senders of deliveries are told nothing of a configuration, and some of them never send again.

use std::collections::HashSet;

use hapax_core::{Error, Inspect, Registry};
use hapax_gateway::settings::Webhooks;
use hapax_gateway::webhooks::record::{InUse, in_use};

use super::documents::first_of;
use super::{Disagreement, Operations, Stated, claims_of, first_name};
use crate::config::{Mistake, Mistakes, Place, Within};

/// What became of the deliveries of one provider.
struct Lost {
    provider: String,
    /// The operations of its webhooks on which claims rest.
    operations: Vec<String>,
    claims: u64,
}

/// Refuses a configuration that takes away from callers or senders what claims rest on, given what the process serves. Nothing is
/// written.
pub(crate) async fn taken_away<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    former: &Operations,
    next: &Operations,
) -> Result<(), Disagreement> {
    let mut refused = unkeyed(registry, inspect, former, next).await?;
    if let Some(before) = &former.webhooks {
        let webhooks = in_use(registry).await?;
        let gone = |one: &InUse| before.takes(&one.provider) && !takes(next, &one.provider);
        for lost in lost(inspect, next, webhooks.iter().filter(|one| gone(one))).await? {
            refused.push(Mistake {
                place: Place { file: next.file.clone(), within: Within::File },
                what: format!(
                    "deliveries of {} are not taken any more, and claims rest on them (claims: {})",
                    lost.provider, lost.claims
                ),
                remedy: format!(
                    "keep [webhooks] and its provider; or revoke its webhooks (`hapax webhooks revoke`); or say `retired = {:?}`",
                    lost.operations
                ),
            });
        }
        let changed =
            |one: &InUse| next.webhooks.as_deref().is_some_and(|now| is_another(before, now, &one.provider));
        for lost in lost(inspect, next, webhooks.iter().filter(|one| changed(one))).await? {
            refused.push(Mistake {
                place: Place { file: next.file.clone(), within: Within::File },
                what: format!(
                    "[webhooks.providers.{}] says otherwise what a delivery is called (`identifier`, `kind_header`), and claims rest on \
                     its deliveries (claims: {})",
                    lost.provider, lost.claims
                ),
                remedy: "undo the change; or declare another provider, and make its webhooks anew: then a delivery that was done runs \
                         again"
                    .to_owned(),
            });
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Disagreement::Refused(Mistakes::new(refused, &next.file))),
    }
}

/// Webhooks whose deliveries are not taken, as far as claims rest on them: told at a start. Another process may take them.
pub(crate) async fn forsaken<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    operations: &Operations,
) -> Result<Option<String>, Error> {
    let webhooks = in_use(registry).await?;
    let lost =
        lost(inspect, operations, webhooks.iter().filter(|one| !takes(operations, &one.provider))).await?;
    let named: Vec<String> =
        lost.iter().map(|lost| format!("{} (claims: {})", lost.provider, lost.claims)).collect();
    Ok((!named.is_empty()).then(|| {
        format!(
            "claims rest on deliveries that are not taken here: of {}. Where that is meant, revoke their webhooks or say `retired`",
            named.join(", ")
        )
    }))
}

fn takes(operations: &Operations, provider: &str) -> bool {
    operations.webhooks.as_ref().is_some_and(|webhooks| webhooks.provider(provider).is_some())
}

/// Whether a provider that is declared both times calls its deliveries otherwise.
fn is_another(before: &Webhooks, now: &Webhooks, provider: &str) -> bool {
    let named = |webhooks: &Webhooks| {
        let declared = webhooks.providers.get(provider)?;
        Some((declared.identifier.clone(), declared.kind_header.clone()))
    };
    named(before).zip(named(now)).is_some_and(|(before, now)| before != now)
}

/// The providers of these webhooks on whose deliveries claims rest; of those that are retired, nobody asks.
async fn lost<I: Inspect>(
    inspect: &I,
    operations: &Operations,
    webhooks: impl Iterator<Item = &InUse>,
) -> Result<Vec<Lost>, Error> {
    let retired: HashSet<&str> = operations.retired.iter().map(|name| name.as_str()).collect();
    let mut lost: Vec<Lost> = Vec::new();
    for webhook in webhooks.filter(|webhook| !retired.contains(webhook.operation.as_str())) {
        let claims = claims_of(inspect, &webhook.operation).await?;
        if claims == 0 {
            continue;
        }
        match lost.iter_mut().find(|lost| lost.provider == webhook.provider) {
            Some(known) => {
                known.claims += claims;
                known.operations.push(webhook.operation.clone());
            }
            None => lost.push(Lost {
                provider: webhook.provider.clone(),
                operations: vec![webhook.operation.clone()],
                claims,
            }),
        }
    }
    Ok(lost)
}

/// Endpoints that took keys and would take none, although their operation goes on elsewhere: a key that was used there would run again.
/// An operation that has no route at all any more is looked for elsewhere.
async fn unkeyed<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    former: &Operations,
    next: &Operations,
) -> Result<Vec<Mistake>, Error> {
    let mut refused = Vec::new();
    for stated in former.keyed.iter() {
        let Some((place, _)) = next.unkeyed.iter().find(|(_, endpoint)| *endpoint == stated.endpoint) else {
            continue;
        };
        if !goes_on(registry, stated, next).await? {
            continue;
        }
        let claims = claims_of(inspect, &first_name(registry, stated.name.as_str()).await?).await?;
        if claims > 0 {
            refused.push(Mistake {
                place: place.clone(),
                what: format!(
                    "{} is the operation {:?} and would take no keys any more, while claims rest on it (claims: {claims})",
                    stated.endpoint,
                    stated.name.as_str()
                ),
                remedy: "leave the operation there; or take the route out until its claims have ended".to_owned(),
            });
        }
    }
    Ok(refused)
}

/// Whether an operation has a route in the next configuration, under whichever name.
async fn goes_on<R: Registry>(registry: &R, stated: &Stated, next: &Operations) -> Result<bool, Error> {
    let first = first_name(registry, stated.name.as_str()).await?;
    for other in &next.keyed {
        for name in std::iter::once(&other.name).chain(other.was.iter().flatten()) {
            if *name == stated.name || first_of(registry, name.as_str()).await?.as_deref() == Some(&*first) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
