//! Where the database is: reading its URL, naming it without its password, and connecting.

use std::time::Duration;

use hapax_core::Error;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket, tls::NoTlsStream};

use super::failure::chain;
use crate::limits;

/// Notices within this time that the other side is gone.
const SILENCE: Duration = Duration::from_secs(10);

/// A database that can be connected to.
#[derive(Clone, Debug)]
pub(super) struct Address {
    config: Config,
    name: String,
}

impl Address {
    /// Reads `postgres://user:password@host:port/database`.
    pub(super) fn parse(url: &str) -> Result<Address, Error> {
        // Whoever reads the URL takes what follows the first one for the host, which messages name.
        let place = url.split_once('@').and_then(|(_, rest)| rest.split('?').next());
        if place.is_some_and(|place| place.contains('@')) {
            return Err(Error::invalid(
                "the URL of the PostgreSQL store has more than one @: write it as %40 in a name or password",
            ));
        }
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            // The cause can quote the URL, and with it the password.
            Error::invalid(
                "the URL of the PostgreSQL store cannot be read: use postgres://user@host:port/database",
            )
            .with_detail(error)
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::invalid("the URL of the PostgreSQL store names no host"));
        }
        if config.get_ssl_mode() == SslMode::Require {
            return Err(Error::invalid(
                "sslmode=require: this hapax speaks to PostgreSQL without TLS; use a local socket or a tunnel",
            ));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(limits::CONNECT_WITHIN);
        }
        if config.get_application_name().is_none() {
            config.application_name("hapax");
        }
        config.keepalives_idle(SILENCE).tcp_user_timeout(SILENCE);
        let name = name(&config);
        Ok(Address { config, name })
    }

    /// Host, port and database, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Connects. The error says who refused what, and never the password.
    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, NoTlsStream>), Error> {
        let connecting = self.config.connect(NoTls);
        match tokio::time::timeout(2 * limits::CONNECT_WITHIN, connecting).await {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(error)) => Err(self.refusal(&error)),
            Err(_) => Err(Error::unavailable(format!("PostgreSQL at {} does not answer", self.name))),
        }
    }

    fn refusal(&self, error: &tokio_postgres::Error) -> Error {
        let detail = chain(error);
        let not_ours = [
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            SqlState::INVALID_CATALOG_NAME,
        ];
        match error.as_db_error() {
            Some(told) if not_ours.contains(told.code()) => {
                let message =
                    format!("PostgreSQL at {} refuses the connection: {}", self.name, told.message());
                Error::invalid(message).with_detail(detail)
            }
            _ => Error::unavailable(format!("PostgreSQL at {} cannot be reached", self.name))
                .with_detail(detail),
        }
    }
}

fn name(config: &Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => format!("{host}:{port}"),
        #[cfg(unix)]
        Some(Host::Unix(path)) => format!("{}:{port}", path.display()),
        None => {
            config.get_hostaddrs().first().map_or_else(String::new, |address| format!("{address}:{port}"))
        }
    };
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    format!("{host}, database {database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_without_its_password() {
        let address = Address::parse("postgres://hapax:s3cret@db.example:6000/ledger").unwrap();
        assert_eq!(address.name(), "db.example:6000, database ledger");
        let error = Address::parse("postgres://hapax:s3cret@db.example:notaport/ledger").unwrap_err();
        assert_eq!(error.kind(), hapax_core::Kind::Invalid);
        assert!(!format!("{error:#}").contains("s3cret"), "{error:#}");
    }

    #[test]
    fn a_second_at_sign_is_refused_before_a_part_of_the_password_is_taken_for_the_host() {
        for url in
            ["postgres://u:p@SECRET@h/d", "postgres://u:p@SEC/RET@h", "postgres://u:p?q@a,SECRET@h:1/d"]
        {
            let error = Address::parse(url).expect_err(url);
            assert!(error.message().contains("%40") && !format!("{error:#}").contains("SEC"), "{error:#}");
        }
        assert!(Address::parse("postgres://u:p%40ss@h/d?application_name=a@b").is_ok());
    }

    #[test]
    fn what_cannot_be_kept_is_refused_at_once() {
        assert!(Address::parse("mysql://x").is_err());
        assert!(Address::parse("postgres:///ledger").is_err());
        assert!(Address::parse("postgres://h/ledger?sslmode=require").is_err());
    }
}
