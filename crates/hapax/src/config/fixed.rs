//! What a running process cannot change: it is read when the process starts, and a reload leaves it as it was (P5).
//!
//! What is not listed here takes effect with a reload.

use super::Config;

impl Config {
    /// What differs from the configuration that a process was started with and takes effect only after a restart, as it is
    /// written in the file.
    pub(crate) fn fixed_since(&self, started: &Config) -> Vec<&'static str> {
        let (edge, was) = (&self.settings.edge, &started.settings.edge);
        let all = [
            ("edge.listen", edge.listen != was.listen),
            ("edge.threads", edge.threads != was.threads),
            // The files are read again; which ones, and whether any, is fixed.
            ("edge.tls", edge.tls != was.tls),
            ("edge.header_timeout", edge.header_timeout != was.header_timeout),
            ("edge.idle_timeout", edge.idle_timeout != was.idle_timeout),
            ("edge.max_connections", edge.max_connections != was.max_connections),
            (
                "edge.max_connections_per_address",
                edge.max_connections_per_address != was.max_connections_per_address,
            ),
            ("edge.docs", edge.docs != was.docs),
            ("admin.listen", self.admin.listen != started.admin.listen),
            ("admin.hosts", self.admin.hosts != started.admin.hosts),
            ("api", self.api != started.api),
            ("admin.tls", self.admin.tls != started.admin.tls),
            ("admin.console", self.admin.console != started.admin.console),
            ("admin.name", self.admin.name != started.admin.name),
            ("admin.label", self.admin.label != started.admin.label),
            ("admin.links", self.admin.links != started.admin.links),
            ("store.url", self.store.url != started.store.url),
            ("store.lease", self.store.lease != started.store.lease),
            ("store.spool", self.store.spool != started.store.spool),
            ("seal", self.seal != started.seal),
            ("log.format", self.log.format != started.log.format),
            ("log.level", self.log.level != started.log.level),
            ("traces", self.traces != started.traces),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}
