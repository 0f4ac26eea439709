//! Parameters of requests.

use percent_encoding::percent_decode_str;
use phalanx::runtime::AdminRequest;

use crate::admin::failure::Failure;

/// Default and maximum number of entries of one response.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// The parameters of a request, percent-decoded.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(request: &AdminRequest) -> Self {
        let pairs = request.query.split('&').filter(|pair| !pair.is_empty());
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(name, value)| (decode(name), decode(value))).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that must be present.
    pub(super) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Failure::bad(format!("the parameter {name} is missing")))
    }

    /// A parameter that must be a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number =
            text.parse().map_err(|_| Failure::bad(format!("{name}: expected a number")))?;
        Ok(Some(number))
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "false")
    }

    /// The number of entries of the response.
    pub(super) fn limit(&self) -> Result<usize, Failure> {
        let limit = self.number("limit")?.map_or(DEFAULT_LIMIT, |limit| limit as usize);
        Ok(limit.clamp(1, MAX_LIMIT))
    }
}
