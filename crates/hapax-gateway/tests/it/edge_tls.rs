//! The whole edge over TLS: both protocols, a key's life, and new certificates without a dropped connection (H11).

use std::path::Path;
use std::sync::Arc;

use hapax_gateway::settings::{Settings, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::edge_h2::{ask, charge, client};
use crate::world::{World, settings};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(folder: &Path) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    authority
}

fn issue(authority: &Authority, folder: &Path) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
    std::fs::write(folder.join("edge.crt"), params.signed_by(&key, authority).unwrap().pem()).unwrap();
    std::fs::write(folder.join("edge.key"), key.serialize_pem()).unwrap();
}

fn with_tls(settings: &mut Settings, folder: &Path) {
    settings.edge.tls = Some(Tls { cert: folder.join("edge.crt"), key: folder.join("edge.key") });
}

async fn connect(world: &World, folder: &Path, protocol: &str) -> TlsStream<TcpStream> {
    let config = hapax_gateway::tls::client_config(Some(&folder.join("ca.pem"))).unwrap();
    let mut config = (*config).clone();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, world.connect().await).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
    stream
}

fn certificate(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

async fn charge_over_http1(world: &World, stream: &mut TlsStream<TcpStream>, key: &str) -> String {
    let request = world.request("POST /charges", &world.alice, &[("idempotency-key", key)], "{}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = hapax_testkit::raw::head(stream).await;
    let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    head.push_str(std::str::from_utf8(&body).unwrap());
    head
}

#[tokio::test]
async fn a_key_lives_over_tls_in_both_protocols_and_certificates_change_under_it_h11() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = authority(folder);
    issue(&authority, folder);
    let world = World::with(|settings| with_tls(settings, folder)).await;
    let mut old = connect(&world, folder, "http/1.1").await;
    let first = charge_over_http1(&world, &mut old, "k-1").await;
    assert!(first.starts_with("HTTP/1.1 201 ") && first.ends_with("answer 1 to {}"), "{first}");
    assert_eq!(world.service.last().header("x-forwarded-proto").unwrap(), "https");
    assert!(world.service.last().header("forwarded").unwrap().ends_with("proto=https"));
    let mut sender = client(connect(&world, folder, "h2").await).await;
    let again = ask(&mut sender, charge(&world.alice, "k-1", "{}")).await;
    assert_eq!((again.status().as_u16(), again.body().as_ref()), (201, &b"answer 1 to {}"[..]));
    assert_eq!(again.headers()["idempotent-replayed"], "true");

    issue(&authority, folder);
    let mut changed = settings(&world.service);
    with_tls(&mut changed, folder);
    world.gateway.reload(changed.clone()).await.unwrap();
    let new = connect(&world, folder, "http/1.1").await;
    assert_ne!(certificate(&old), certificate(&new), "new connections get the new certificate");
    let kept = charge_over_http1(&world, &mut old, "k-1").await;
    assert!(kept.contains("idempotent-replayed: true"), "connections that stand go on: {kept}");
    assert_eq!(ask(&mut sender, charge(&world.alice, "k-2", "{}")).await.status().as_u16(), 201);

    std::fs::write(folder.join("edge.crt"), "nonsense").unwrap();
    assert!(world.gateway.reload(changed).await.is_err());
    assert_eq!(certificate(&new), certificate(&connect(&world, folder, "http/1.1").await));
    assert_eq!(world.service.count(), 2);
}

#[tokio::test]
async fn plain_http_to_a_tls_port_reaches_nobody_h11() {
    let folder = tempfile::tempdir().unwrap();
    issue(&authority(folder.path()), folder.path());
    let world = World::with(|settings| with_tls(settings, folder.path())).await;
    let request = world.request("POST /charges", &world.alice, &[("idempotency-key", "k-1")], "{}");
    assert!(world.send(request).await.is_none());
    assert_eq!(world.service.count(), 0);
}
