//! Looking at claims: list, show, count (L17).
//!
//! The questions are the same over HTTP and for `hapax claims --store`, so what answers them takes any store that can be
//! inspected.

use bytes::Bytes;
use hapax_core::limits::MAX_PAGE;
use hapax_core::{
    Error, Filter, Inspect, Operation, OperationId, Project, Record, StateName, Subject, Tenant,
};
use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::Role;
use super::endpoints::{Asked, Ran, ok};
use super::refusal::Refusal;
use super::{AdminState, view};
use crate::limits;
use crate::when::{now, parse_span, parse_utc};

/// Which claims are meant, as the query of `/v1/claims` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Which {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this project.
    pub project: Option<String>,
    /// Of this subject, as it is rendered.
    pub subject: Option<String>,
    /// On this operation.
    pub operation: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// In this state.
    pub state: Option<String>,
    /// Granted from absent before this time.
    pub opened_before: Option<String>,
    /// Granted from absent at least this long ago.
    pub age: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
    /// Where the page starts.
    pub after: Option<String>,
}

impl Which {
    fn filter(&self) -> Result<Filter, Error> {
        let opened_before = match (&self.opened_before, &self.age) {
            (Some(_), Some(_)) => return Err(Error::invalid("say opened_before or age, not both")),
            (Some(time), None) => Some(parse_utc(time)?),
            (None, Some(age)) => Some(before(parse_span(age)?)),
            (None, None) => None,
        };
        self.check_names()?;
        Ok(Filter {
            tenant: self.tenant.clone(),
            project: self.project.clone(),
            subject: self.subject.clone(),
            operation: self.operation.clone(),
            key: self.key.clone(),
            state: self.state.as_deref().map(parse_state).transpose()?,
            opened_before,
        })
    }
}

impl Which {
    /// A slip of the pen must not look like a tenant or a subject for whom there are no claims.
    fn check_names(&self) -> Result<(), Error> {
        // What a claim has in the place of a project or subject that does not count for it.
        let stands_for = |text: &str| ["_any", "_tenant", "_platform"].contains(&text);
        if let Some(tenant) = &self.tenant {
            Tenant::new(tenant)?;
        }
        if let Some(project) = self.project.as_deref().filter(|project| !stands_for(project)) {
            Project::new(project)?;
        }
        if let Some(subject) = self.subject.as_deref().filter(|subject| !stands_for(subject)) {
            let form = "a subject is written as user:ID, service:ID, tenant_member:ID or client:ID";
            Subject::parse(subject).map_err(|error| Error::invalid(form).with_detail(error))?;
        }
        if let Some(operation) = &self.operation {
            Operation::new(operation)?;
        }
        Ok(())
    }
}

fn before(age: std::time::Duration) -> hapax_core::Timestamp {
    let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    hapax_core::Timestamp::from_micros(now().as_micros().saturating_sub(micros))
}

fn parse_state(text: &str) -> Result<StateName, Error> {
    let known = StateName::ALL.into_iter().find(|state| state.as_str() == text);
    known.ok_or_else(|| Error::invalid("a state is held, settled, in_doubt or released"))
}

/// Checks the size of a page.
pub(super) fn page_size(limit: Option<usize>) -> Result<usize, Error> {
    match limit.unwrap_or(limits::PAGE) {
        limit @ 1..=MAX_PAGE => Ok(limit),
        _ => Err(Error::invalid("a page has 1 to 1000 records")),
    }
}

/// One page of claims.
pub async fn list(store: &impl Inspect, which: &Which) -> Result<Value, Error> {
    let page = store.list(&which.filter()?, which.after.as_deref(), page_size(which.limit)?).await?;
    let claims: Vec<_> = page.items.iter().map(view::claim).collect();
    Ok(json!({"claims": claims, "next": page.next, "damaged": view::damaged(&page.damaged)}))
}

/// How many claims there are in each state.
pub async fn count(store: &impl Inspect, which: &Which) -> Result<Value, Error> {
    let Which { tenant, project, operation, .. } = which.clone();
    if *which != (Which { tenant, project, operation, ..Which::default() }) {
        return Err(Error::invalid(
            "claims are counted by tenant, project and operation; every state is told",
        ));
    }
    Ok(view::counts(&store.count(&which.filter()?).await?))
}

/// One claim; `None` where it is absent.
pub async fn show(store: &impl Inspect, id: &str) -> Result<Option<Value>, Error> {
    let id: OperationId = id.parse()?;
    Ok(store.find(id).await?.as_ref().map(view::claim))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Showing {
    outcome: bool,
}

pub(super) fn get_list(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move { ok(&list(&state.store, &asked.query()?).await?) })
}

pub(super) fn get_count(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move { ok(&count(&state.store, &asked.query()?).await?) })
}

pub(super) fn get_one(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move { one(&state, &asked).await })
}

async fn one(state: &AdminState, asked: &Asked) -> Result<Response<Bytes>, Refusal> {
    let showing: Showing = asked.query()?;
    if showing.outcome {
        // What a customer was answered is more than what an operator needs in order to look around.
        asked.needs(Role::Operate)?;
    }
    let record = find(state, &asked.id).await?;
    ok(&match showing.outcome {
        true => view::claim_with_outcome(&record, &*state.answers),
        false => view::claim(&record),
    })
}

/// The claim of an operation id.
pub(super) async fn find(state: &AdminState, id: &str) -> Result<Record, Refusal> {
    let id: OperationId = id.parse()?;
    state.store.find(id).await?.ok_or_else(|| {
        Refusal::not_found(format!(
            "there is no claim {id}: it never was, is past its retention, or was purged"
        ))
    })
}
