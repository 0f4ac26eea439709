//! Requests to the admin pages of a program.

use std::net::SocketAddr;
use std::time::Duration;

use ureq::config::Config;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error, http};

/// Timeout for a page.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of a response; a thousand processors with sixty stages need less.
const MAX_BODY_BYTES: u64 = 256 << 20;

/// Resolves every name to one address, since a URL cannot contain the scope of an IPv6 address.
#[derive(Debug)]
struct FixedResolver(SocketAddr);

impl Resolver for FixedResolver {
    fn resolve(
        &self,
        _: &http::Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(self.0);
        Ok(addresses)
    }
}

/// Fetches a page. The address is also the host of the request; a name would need `--admin-hosts`.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Vec<u8>, Error> {
    let config = Config::builder().timeout_global(Some(TIMEOUT)).proxy(None);
    let config = config.max_redirects(0).build();
    let agent = Agent::with_parts(config, DefaultConnector::new(), FixedResolver(address));
    let host = SocketAddr::new(address.ip(), address.port());
    let mut response = agent.get(format!("http://{host}{path}")).call()?;
    response.body_mut().with_config().limit(MAX_BODY_BYTES).read_to_vec()
}
