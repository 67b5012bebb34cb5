//! What the writer is asked to do, and what it answers.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::audit::{Note, Setting};
use hapax_core::journal::{Append, Erasure, Head, Stream};
use hapax_core::lane::{LaneAnswer, LaneCommand, LaneId};
use hapax_core::registry::DocumentId;
use hapax_core::{
    Answer, AttemptId, ClaimId, Command, Epoch, Error, Identity, Lease, Outcome, Report, Scope, SessionId,
    SweepReport,
};

use super::reply::Reply;

/// One command on its way to the writer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) what: What,
    /// Where the answer goes once it is durable; nobody waits for a job of the store itself.
    pub(super) reply: Option<Reply<Told>>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum What {
    /// A command to a claim, with the journal events that belong to it.
    Step { claim: ClaimId, command: Command, identity: Option<Identity>, events: Vec<Append> },
    /// The sweeper's visits.
    Sweep(Vec<(ClaimId, Epoch)>),
    /// A command to a lane.
    Lane(LaneId, LaneTold),
    /// A write to a journal.
    Append(Append),
    /// The end of the payloads that have a subject's data.
    Erase { stream: Stream, subject: String, from: u64, limit: usize },
    /// A document's new body.
    Put { id: DocumentId, expect: u64, body: Bytes },
    /// A document's end.
    Delete { id: DocumentId, expect: u64 },
    /// A document's new body, or its end, as an operator wants it.
    Set { id: DocumentId, expect: u64, body: Option<Bytes>, setting: Setting },
    /// An entry of the audit, and nothing else.
    Note(Note),
    /// A lease that is not the process's own, for a term.
    OpenLease(Scope, Duration),
    /// Such a lease for another term.
    RenewLease(Scope, SessionId),
    /// The end of such a lease.
    EndLease(Scope, SessionId),
    /// Renew the session.
    Renew,
    /// Write down that the session was renewed, and do what can be done when there is nothing else to do.
    Beat,
    /// End the session.
    End,
}

/// A command to a lane. The writer knows the session and the time that a ticket begins with.
#[derive(Clone, Debug)]
pub(super) enum LaneTold {
    Enter(AttemptId, Option<ClaimId>),
    Command(LaneCommand),
}

impl What {
    /// The outcome that is to be kept, if one is.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match self {
            What::Step { command: Command::Hold(_, Report::Settle(outcome, _)), .. } => Some(outcome),
            What::Step { command: Command::Set(_, outcome, _), .. } => Some(outcome),
            _ => None,
        }
    }
}

/// What whoever asked is told.
pub(super) type Told = Result<Done, Error>;

/// What was done.
#[derive(Clone, Debug)]
pub(super) enum Done {
    Step(Answer),
    Swept(SweepReport),
    Lane(LaneAnswer),
    Appended(Box<Head>),
    Erased(Erasure),
    Version(u64),
    Lease(Lease),
    Nothing,
}
