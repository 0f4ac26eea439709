//! HTTPS requests to the authority. They may block, because the manager has a separate thread.

use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Time for a request with its response.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest body of a response. A chain of certificates has some kilobytes.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// A client of the authority. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Transport {
    agent: Agent,
    /// The delay that the last response with an error asked for, in seconds.
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl Transport {
    /// A client that trusts the authorities in a PEM file, by default those of the system.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Self, String> {
        let found: Vec<CertificateDer<'_>> = match ca {
            None => rustls_native_certs::load_native_certs().certs,
            Some(path) => {
                let error =
                    |error| format!("cannot use the authorities in {}: {error}", path.display());
                let read = CertificateDer::pem_file_iter(path).map_err(error)?;
                read.collect::<Result<_, _>>().map_err(error)?
            }
        };
        if found.is_empty() {
            return Err(match ca {
                Some(path) => format!("{} has no certificate", path.display()),
                None => "this system has no CA certificates; set acme.ca, or install the package \
                         ca-certificates"
                    .to_owned(),
            });
        }
        let roots = found.iter().map(|found| Certificate::from_der(found).to_owned());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots.collect())))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .build();
        Ok(Self { agent: config.new_agent(), retry_after: Arc::default() })
    }

    /// Takes the delay that the last response with an error asked for.
    pub(crate) fn take_retry_after(&self) -> Option<Duration> {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn exchange(&self, request: Request<Vec<u8>>) -> Result<BytesResponse, ureq::Error> {
        let (parts, body) = request.into_parts();
        let response = match body.is_empty() {
            true => self.agent.run(Request::from_parts(parts, ()))?,
            false => self.agent.run(Request::from_parts(parts, body))?,
        };
        let (parts, mut body) = response.into_parts();
        let may_delay =
            matches!(parts.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let retry_after = parts.headers.get(header::RETRY_AFTER).filter(|_| may_delay);
        let retry_after =
            retry_after.and_then(|value| delay(value.to_str().ok()?.trim(), SystemTime::now()));
        if retry_after.is_some() {
            *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = retry_after;
        }
        let body = Bytes::from(body.with_config().limit(MAX_BODY_BYTES).read_to_vec()?);
        Ok(BytesResponse { parts, body: Box::new(body) })
    }
}

/// The delay in a `Retry-After`: seconds or a time (RFC 9110 §10.2.3).
fn delay(value: &str, now: SystemTime) -> Option<Duration> {
    let delay_until = |time: SystemTime| time.duration_since(now).unwrap_or_default();
    let seconds = value.parse().map(Duration::from_secs);
    seconds.ok().or_else(|| httpdate::parse_http_date(value).ok().map(delay_until))
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let url = parts.uri.clone();
            let result = client.exchange(Request::from_parts(parts, body.to_bytes().to_vec()));
            result.map_err(|error| Error::Other(format!("no response from {url}: {error}").into()))
        })
    }
}

/// The output of a future of the ACME client. It waits only for [`Transport`], which blocks, so it is ready
/// immediately.
pub(crate) fn complete<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("requests block"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_700);
        for (value, expected) in [
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(77)),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(delay(value, now), expected.map(Duration::from_secs), "{value}");
        }
    }
}
