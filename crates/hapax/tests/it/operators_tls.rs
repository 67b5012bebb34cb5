//! Operators over TLS: the page, the API and the command line, with a certificate that is changed while the server runs (M1, M2, M3).

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::claims_cli::{Told, told};
use crate::rig::{Ground, Hapax, Kind, TOKEN, hapax};

/// An authority that signs for `localhost`.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate for this name that the authority has signed.
fn sign(ground: &Ground, authority: &CertifiedIssuer<'static, KeyPair>, name: &str) {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec![name.into()]).unwrap().signed_by(&key, authority).unwrap();
    std::fs::write(ground.folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(ground.folder.path().join("cert.pem"), cert.pem()).unwrap();
}

async fn count(edge: &Hapax, scheme: &str, ca: &[&str]) -> Told {
    let url = format!("{scheme}://localhost:{}", edge.admin.port());
    let mut command = hapax(&[&["claims", "count", "--admin", &url], ca].concat());
    command.env("HAPAX_ADMIN_TOKEN", TOKEN);
    told(command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_served_over_tls_and_the_certificate_is_read_again_m1_m2_p5() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let (one, other) = (authority(), authority());
    let ca = |name: &str| ground.folder.path().join(name).display().to_string();
    let (trusted, not) = (ca("one.pem"), ca("other.pem"));
    std::fs::write(&trusted, one.pem()).unwrap();
    std::fs::write(&not, other.pem()).unwrap();
    sign(&ground, &one, "localhost");
    ground.sections = "[admin.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n".into();
    let edge = ground.serve().await;

    let done = count(&edge, "https", &["--ca", &trusted]).await;
    assert!(done.code == 0 && done.out.contains("in_doubt"), "{} {}", done.out, done.err);
    for (scheme, ca, part) in [
        ("https", vec!["--ca", &not], "no TLS"),
        ("https", vec![], "no TLS"),
        ("http", vec![], "gave no answer"),
    ] {
        let refused = count(&edge, scheme, &ca).await;
        assert!(refused.code == 3 && refused.err.contains(part), "{scheme} {ca:?}: {}", refused.err);
    }
    let misused = count(&edge, "http", &["--ca", &trusted]).await;
    assert!(misused.code == 2 && misused.err.contains("--ca is for an https:// URL"), "{}", misused.err);

    let certificate = reqwest::Certificate::from_pem(one.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([certificate]).build().unwrap();
    let ask = async |path: &str| {
        let url = format!("https://localhost:{}{path}", edge.admin.port());
        client.get(url).header("authorization", format!("Bearer {TOKEN}")).send().await
    };
    let page = ask("/").await.unwrap();
    assert!(page.status() == 200 && page.headers().contains_key("content-security-policy"));
    assert_eq!(ask("/v1/me").await.unwrap().status(), 200);

    sign(&ground, &other, "localhost");
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    assert_eq!(count(&edge, "https", &["--ca", &not]).await.code, 0);
    assert_eq!(count(&edge, "https", &["--ca", &trusted]).await.code, 3);
}
