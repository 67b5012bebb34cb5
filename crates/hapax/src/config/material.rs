//! What is in the files of certificates and keys that a configuration names: whether the gateway can use it (P5).
//!
//! The gateway itself is asked, so that what is right here is right there; otherwise a mistake would be told one by one by a
//! process that does not start, or, worse, by one that does.

use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hapax_core::Error;
use hapax_gateway::auth::Authenticator;
use hapax_gateway::settings::{Auth, Jwt, Tls};
use hapax_gateway::tls::{Certificates, client_config};
use hapax_store::Options;
use hapax_store::memory::Memory;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::reader::Reader;
use super::section::Spot;

/// Tells what is wrong with the certificate and the key of the edge.
pub(crate) fn pair(reader: &Reader<'_>, cert: &Spot<PathBuf>, key: &Spot<PathBuf>) {
    let files = Tls { cert: cert.value.clone(), key: key.value.clone() };
    let Err(error) = Certificates::load(&files) else { return };
    let swapped = Tls { cert: files.key.clone(), key: files.cert.clone() };
    if Certificates::load(&swapped).is_ok() {
        reader.mistake(&cert.at, "`cert` and `key` name each other's file", "swap them");
        return;
    }
    let broken_key = PrivateKeyDer::from_pem_file(&files.key).is_err();
    let about_key = error.message().starts_with("the private key");
    if broken_key || about_key {
        let what = match about_key {
            true => format!("`key`: {}", error.message()),
            false => format!("`key`: there is no private key in {}", files.key.display()),
        };
        reader.mistake(&key.at, what, "name the PEM file with the private key of `cert`");
    }
    if !about_key {
        let remedy = "name the PEM file with the certificate chain, the edge's own certificate first";
        reader.mistake(&cert.at, format!("`cert`: {}", error.message()), remedy);
    }
}

/// Tells what is wrong with the certificates that are believed of an upstream.
pub(crate) fn ca(reader: &Reader<'_>, file: &Spot<PathBuf>) {
    if let Err(error) = client_config(Some(&file.value)) {
        let remedy = "name a PEM file with the certificates that the service's own is signed with";
        reader.mistake(&file.at, format!("`ca`: {}", error.message()), remedy);
    }
}

/// Whether tokens can be checked with the keys of a file.
pub(crate) fn keys_of_file(jwt: &Jwt) -> Result<(), Error> {
    let auth = Auth { jwt: Some(jwt.clone()), ..Auth::default() };
    let opening = pin!(Authenticator::open(&auth, Memory::open(Options::default())));
    // With keys of a file there is nothing to wait for.
    match opening.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(error)) => Err(error),
        Poll::Ready(Ok(_)) | Poll::Pending => Ok(()),
    }
}
