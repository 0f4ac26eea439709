//! Verification of a server's certificate, which may itself be in the file of the trusted ones.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// rustls's verifier, which rejects a server's certificate if it is marked as one of an authority. `openssl req -x509`
/// marks every self-signed certificate so, hence a certificate that is itself trusted is accepted with this mark.
#[derive(Debug)]
pub(super) struct Verifier {
    signed: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Trusts certificates that `roots` have signed, and the `trusted` ones themselves. `roots` are not empty.
    pub(super) fn new(roots: Arc<RootCertStore>, trusted: Vec<CertificateDer<'static>>) -> Self {
        let provider = Arc::new(ring::default_provider());
        let signed = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        Self { signed: signed.expect("there are roots, and no revocation lists"), trusted }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.signed.verify_server_cert(server, intermediates, name, ocsp, now) {
            Err(_) if self.trusted.contains(server) && is_current_authority(server, now) => {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// Whether the certificate is marked as one of an authority and is valid at this time.
fn is_current_authority(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    let (Ok((_, certificate)), Some(now)) = (X509Certificate::from_der(certificate), now) else {
        return false;
    };
    certificate.is_ca() && certificate.validity().is_valid_at(now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));

    /// A self-signed certificate for `a.example`.
    fn certificate(is_ca: IsCa, last_year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["a.example".into()]).unwrap();
        params.is_ca = is_ca;
        params.not_after = date_time_ymd(last_year, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn self_signed_certificates_are_accepted_if_they_are_trusted() {
        let authority = || IsCa::Ca(BasicConstraints::Unconstrained);
        let verify = |certificate: &CertificateDer<'_>, trusted: &CertificateDer<'_>, name| {
            let mut roots = RootCertStore::empty();
            roots.add(trusted.clone().into_owned()).unwrap();
            let verifier = Verifier::new(roots.into(), vec![trusted.clone().into_owned()]);
            let name = ServerName::try_from(name).unwrap();
            verifier.verify_server_cert(certificate, &[], &name, &[], NOW).is_ok()
        };
        for is_ca in [authority(), IsCa::ExplicitNoCa, IsCa::NoCa] {
            let own = certificate(is_ca, 2030);
            assert!(verify(&own, &own, "a.example"), "{is_ca:?}");
            assert!(!verify(&own, &own, "b.example"), "{is_ca:?}: another name");
            let other = certificate(is_ca, 2030);
            assert!(!verify(&own, &other, "a.example"), "{is_ca:?}: another certificate");
            let expired = certificate(is_ca, 2026);
            assert!(!verify(&expired, &expired, "a.example"), "{is_ca:?}: expired");
        }
    }
}
