//! One order, from its challenges to the certificate.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderState, OrderStatus,
};
use phalanx::runtime::report;
use phalanx_tls::Certificates;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use crate::challenges::{Challenges, Responses};
use crate::plan::ChallengeKind;
use crate::storage::{PendingOrder, Storage};

/// First and longest delay between two polls for the state of an order.
const DELAYS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];
/// Maximum number of polls for the state of an order, which take about four minutes.
const MAX_QUESTIONS: u32 = 30;

/// Why an order failed.
pub(crate) enum OrderError {
    /// The program is shutting down, or the plan has changed.
    Stopped,
    /// The authority does not know the account.
    NoAccount,
    /// The authority has refused the order, usually because of a challenge.
    Refused(String),
    /// The authority does not offer the challenge, or has not completed the order in time. The order is kept.
    NotValidated(String),
    /// Anything else.
    Error(String),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        if let Error::Api(problem) = &error
            && problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:accountDoesNotExist")
        {
            return Self::NoAccount;
        }
        Self::Error(error.to_string())
    }
}

impl From<String> for OrderError {
    fn from(error: String) -> Self {
        Self::Error(error)
    }
}

/// Context shared by all orders.
pub(crate) struct Context<'a> {
    pub(crate) account: &'a Account,
    pub(crate) challenges: &'a Challenges,
    pub(crate) certificates: &'a Certificates,
    pub(crate) storage: &'a Storage,
    /// Waits. Returns false if the order must be aborted.
    pub(crate) wait: &'a dyn Fn(Duration) -> bool,
}

/// The stored order for `names`, or a new one with a stored key, so that no certificate is issued without its key, and
/// none is ordered if the disk is full.
pub(crate) fn prepare(storage: &Storage, names: &[String]) -> Result<PendingOrder, String> {
    if let Some(pending) = storage.load_order(names) {
        return Ok(pending);
    }
    let key = KeyPair::generate().map_err(|error| error.to_string())?.serialize_pem();
    let pending = PendingOrder { names: names.to_owned(), key, url: None };
    storage.save_order(&pending)?;
    Ok(pending)
}

/// Continues the order `pending` or makes a new one, perhaps for a certificate that replaces another. Returns the chain
/// and the key in PEM.
pub(crate) async fn order(
    context: &Context<'_>,
    pending: PendingOrder,
    kind: ChallengeKind,
    replaced: Option<CertificateIdentifier<'_>>,
) -> Result<String, OrderError> {
    let text = |error: rcgen::Error| error.to_string();
    let key = KeyPair::from_pem(&pending.key).map_err(text)?;
    let names = pending.names.clone();
    let mut order = open(context, pending, replaced).await?;
    if order.state().status == OrderStatus::Pending {
        let mut responses = Responses::new(context.challenges, context.certificates);
        respond(&mut order, kind, &mut responses).await?;
        poll_until(context, &mut order, |state| state.status != OrderStatus::Pending).await?;
    }
    if order.state().status == OrderStatus::Ready {
        let mut params = CertificateParams::new(names).map_err(text)?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(text)?;
        order.finalize_csr(request.der()).await?;
    }
    let is_made =
        |state: &OrderState| matches!(state.status, OrderStatus::Valid | OrderStatus::Invalid);
    if poll_until(context, &mut order, is_made).await? == OrderStatus::Invalid {
        return Err(refusal(&mut order).await);
    }
    let chain = order.certificate().await?;
    let chain = chain.ok_or_else(|| "the authority has sent no certificate".to_owned())?;
    Ok(format!("{}\n{}", chain.trim_end(), key.serialize_pem()))
}

/// The order of `pending` if the authority knows it and has not refused it; otherwise a new one, whose URL is stored.
async fn open(
    context: &Context<'_>,
    mut pending: PendingOrder,
    replaced: Option<CertificateIdentifier<'_>>,
) -> Result<Order, OrderError> {
    if let Some(url) = pending.url.take() {
        match context.account.order(url).await {
            Ok(mut order) => {
                if order.state().status != OrderStatus::Invalid {
                    return Ok(order);
                }
            }
            // The authority no longer knows the order, or it belongs to an earlier account.
            Err(Error::Api(_)) => (),
            Err(error) => return Err(error.into()),
        }
    }
    let identifiers: Vec<_> = pending.names.iter().cloned().map(Identifier::Dns).collect();
    let order = create_order(context.account, &identifiers, replaced).await?;
    pending.url = Some(order.url().to_owned());
    // If this fails, a restart makes another order.
    if let Err(error) = context.storage.save_order(&pending) {
        report(&error);
    }
    Ok(order)
}

/// Begins an order. If the authority rejects the identifier of the replaced certificate, which is optional, begins
/// another order without it.
async fn create_order(
    account: &Account,
    identifiers: &[Identifier],
    replaced: Option<CertificateIdentifier<'_>>,
) -> Result<Order, Error> {
    let order = || NewOrder::new(identifiers);
    if let Some(replaced) = replaced {
        match account.new_order(&order().replaces(replaced)).await {
            Err(error) if may_concern_replacement(&error) => (),
            result => return result,
        }
    }
    account.new_order(&order()).await
}

/// Whether an order may have failed because it replaces a certificate. After a rate limit, an error of the authority,
/// or a failed connection, another request would not help.
fn may_concern_replacement(error: &Error) -> bool {
    match error {
        Error::Api(problem) => {
            problem.r#type.as_deref() != Some("urn:ietf:params:acme:error:rateLimited")
                && problem.status.is_none_or(|status| status != 429 && status < 500)
        }
        Error::Other(error) => !error.is::<ureq::Error>(),
        // The response does not come from an ACME authority.
        Error::Json(_) => false,
        _ => true,
    }
}

/// Prepares the response to the challenge of each name, and asks the authority to check it, one name after the other.
async fn respond(
    order: &mut Order,
    kind: ChallengeKind,
    responses: &mut Responses<'_>,
) -> Result<(), OrderError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => (),
            status => return Err(format!("the authorization for {name} is {status:?}").into()),
        }
        let challenge_type = match kind {
            ChallengeKind::Http01 => ChallengeType::Http01,
            ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let Some(mut challenge) = authorization.challenge(challenge_type) else {
            let (kind, error) = (kind.name(), OrderError::NotValidated);
            return Err(error(format!("the authority offers no {kind} for {name}")));
        };
        let key = challenge.key_authorization();
        let digest = key.digest();
        responses.add(kind, (&name, &challenge.token), (key.as_str(), digest.as_ref()))?;
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Waits until the order reaches a state.
async fn poll_until(
    context: &Context<'_>,
    order: &mut Order,
    is_reached: impl Fn(&OrderState) -> bool,
) -> Result<OrderStatus, OrderError> {
    let mut delay = DELAYS[0];
    for _ in 0..MAX_QUESTIONS {
        let state = order.refresh().await?;
        if is_reached(state) {
            return Ok(state.status);
        }
        if !(context.wait)(delay) {
            return Err(OrderError::Stopped);
        }
        delay = (delay * 2).min(DELAYS[1]);
    }
    Err(OrderError::NotValidated("the authority has not completed the order in time".to_owned()))
}

/// Why the authority refused an order: the errors of its challenges.
async fn refusal(order: &mut Order) -> OrderError {
    let mut reasons = Vec::new();
    reasons.extend(order.state().error.as_ref().map(ToString::to_string));
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        let name = state.identifier().to_string();
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(errors.map(|error| format!("{name}: {error}")));
    }
    if reasons.is_empty() {
        reasons.push("the authority gives no reason".to_owned());
    }
    OrderError::Refused(reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_orders_that_replace_a_certificate() {
        let problem = |name: &str, status| {
            let kind = format!("urn:ietf:params:acme:error:{name}");
            let (detail, subproblems) = (None, Vec::new());
            let problem = instant_acme::Problem { r#type: Some(kind), detail, status, subproblems };
            may_concern_replacement(&Error::Api(problem))
        };
        assert!(problem("alreadyReplaced", Some(409)) && problem("malformed", None));
        assert!(!problem("rateLimited", None) && !problem("unknown", Some(429)));
        assert!(!problem("serverInternal", Some(503)));
        assert!(may_concern_replacement(&Error::Unsupported("ARI")), "no request was sent");
        assert!(may_concern_replacement(&Error::Other("replaces field mismatch".into())));
        let timeout = ureq::Error::HostNotFound;
        assert!(!may_concern_replacement(&Error::Other(Box::new(timeout))));
    }
}
