//! A store opened for reading beside the process that writes it (B8).

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hapax_core::claim::audit::{AuditEvent, Note, Setting};
use hapax_core::journal::{Append, Checkpoint, Erasure, Event, Head, Listed, Stream, StreamFilter};
use hapax_core::lane::LaneId;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{
    ClaimId, Counts, Decision, Error, Filter, Inspect, Journal, Operated, OperationId, Page, Record,
    Registry, Shelf, SweepReport, View,
};
use hapax_store::SystemClock;
use hapax_store::parts::{filter, lane_mark};

use super::folder::Folder;
use super::reader::{Desk, Reader, Signs};
use super::schema;
use super::session::Guarded;
use super::verify::{self, Verification};
use super::{audit, events, lanes, list, ports, shared, streams};

/// A handle that reads and changes nothing.
///
/// It has the ports that operators need; their methods that would write say that this handle cannot.
#[derive(Clone)]
pub struct EmbeddedReader {
    desk: Desk,
}

impl EmbeddedReader {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let database = Folder::with_store(path)?.database();
        let conn = schema::open_reader(&database)?;
        let meta = schema::check_version(&conn).map_err(|fault| schema::opening_fault(&database, fault))?;
        drop(conn);
        let clock = Guarded::new(Arc::new(SystemClock::default()), meta.latest);
        let reader = Reader::open(&database, Arc::new(clock), Signs::Stored, Arc::default())?;
        let (desk, work) = Desk::new(reader);
        // The thread ends with the last handle; there is nothing to wait for.
        super::spawn("hapax-read", work)?;
        Ok(EmbeddedReader { desk })
    }

    /// Reads a claim; `None` when it is absent.
    pub async fn peek(&self, claim: ClaimId) -> Result<Option<View>, Error> {
        self.desk.read(move |reader| reader.peek(&claim)).await
    }

    /// Reads everything and checks it: checksums, chains, indexes and counts.
    pub async fn verify(&self) -> Result<Verification, Error> {
        self.desk.read(verify::verify).await
    }
}

impl std::fmt::Debug for EmbeddedReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedReader").finish_non_exhaustive()
    }
}

fn read_only() -> Error {
    Error::invalid("the store is open for reading only; ask the server that has it open for writing")
}

impl Journal for EmbeddedReader {
    async fn append(&self, _: Append) -> Result<Head, Error> {
        Err(read_only())
    }

    async fn head(&self, stream: &Stream) -> Result<Option<Head>, Error> {
        let stream = stream.clone();
        self.desk.read(move |reader| Ok(events::find(&reader.conn, &stream)?.map(|(_, head)| head))).await
    }

    async fn read(&self, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Error> {
        let stream = stream.clone();
        self.desk.read(move |reader| streams::read(&reader.conn, &stream, from, limit)).await
    }

    async fn checkpoint(&self, stream: &Stream) -> Result<Option<Checkpoint>, Error> {
        let stream = stream.clone();
        self.desk.read(move |reader| streams::checkpoint(&reader.conn, &stream)).await
    }

    async fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Listed>, Error> {
        let (filter, after) = (filter.clone(), after.map(str::to_owned));
        self.desk.read(move |reader| reader.list_streams(&filter, after.as_deref(), limit)).await
    }
}

impl Registry for EmbeddedReader {
    async fn get(&self, id: &DocumentId) -> Result<Option<Document>, Error> {
        let id = id.clone();
        self.desk.read(move |reader| shared::get(&reader.conn, &id)).await
    }

    async fn put(&self, _: &DocumentId, _: u64, _: Bytes) -> Result<u64, Error> {
        Err(read_only())
    }

    async fn delete(&self, _: &DocumentId, _: u64) -> Result<(), Error> {
        Err(read_only())
    }

    async fn list_documents(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, Error> {
        let (kind, after) = (kind.to_owned(), after.unwrap_or_default().to_owned());
        self.desk.read(move |reader| shared::list(&reader.conn, &kind, &after, limit)).await
    }
}

impl Inspect for EmbeddedReader {
    async fn record(&self, claim: ClaimId) -> Result<Option<Record>, Error> {
        self.desk.read(move |reader| reader.record(&claim)).await
    }

    async fn find(&self, operation: OperationId) -> Result<Option<Record>, Error> {
        self.desk.read(move |reader| reader.find(operation)).await
    }

    async fn list(&self, filter: &Filter, after: Option<&str>, limit: usize) -> Result<Page<Record>, Error> {
        let (wanted, after) = (filter.clone(), filter::page_mark(after)?);
        self.desk.read(move |reader| list::list(reader, &wanted, after.cast_signed(), limit)).await
    }

    async fn count(&self, filter: &Filter) -> Result<Counts, Error> {
        filter::countable(filter)?;
        let wanted = filter.clone();
        self.desk.read(move |reader| list::count(reader, &wanted)).await
    }

    async fn shelves(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Shelf>, Error> {
        filter::countable(filter)?;
        let (wanted, after) = (filter.clone(), ports::shelf_mark(after)?);
        self.desk.read(move |reader| list::shelves(reader, &wanted, after, limit)).await
    }

    async fn decide_with(&self, _: ClaimId, _: Decision, _: Vec<Append>) -> Result<Operated, Error> {
        Err(read_only())
    }

    async fn decide_setting(
        &self,
        _: &DocumentId,
        _: u64,
        _: Option<Bytes>,
        _: Setting,
    ) -> Result<(), Error> {
        Err(read_only())
    }

    async fn lanes(&self, after: Option<&str>, limit: usize) -> Result<Page<LaneId>, Error> {
        let after = after.map(lane_mark::read_mark).transpose()?;
        self.desk.read(move |reader| lanes::page(&reader.conn, after.as_ref(), limit)).await
    }

    async fn note(&self, _: Note) -> Result<(), Error> {
        Err(read_only())
    }

    async fn sweep(&self, _: usize) -> Result<SweepReport, Error> {
        Err(read_only())
    }

    async fn has_set_aside(&self, operation: OperationId) -> Result<bool, Error> {
        self.desk.read(move |reader| audit::has_set_aside(&reader.conn, operation)).await
    }

    async fn erase_events(&self, _: &Stream, _: &str, _: u64, _: usize) -> Result<Erasure, Error> {
        Err(read_only())
    }

    async fn audit(&self, after: Option<&str>, limit: usize) -> Result<Page<AuditEvent>, Error> {
        let before = ports::audit_mark(after)?;
        self.desk.read(move |reader| audit::page(&reader.conn, before, limit)).await
    }
}
