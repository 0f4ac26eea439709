//! Requests to the admin pages of a program.

use std::net::SocketAddr;
use std::time::Duration;

/// Timeout for a page.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of a response; a thousand processors with sixty stages need less.
const MAX_BODY_BYTES: u64 = 256 << 20;

/// Fetches a page.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Vec<u8>, ureq::Error> {
    let config = ureq::config::Config::builder().timeout_global(Some(TIMEOUT)).proxy(None);
    let agent = ureq::Agent::new_with_config(config.max_redirects(0).build());
    let mut response = agent.get(format!("http://{address}{path}")).call()?;
    response.body_mut().with_config().limit(MAX_BODY_BYTES).read_to_vec()
}
