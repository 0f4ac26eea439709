//! One order, from its challenges to the certificate.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderState, OrderStatus,
};
use phalanx_tls::Certificates;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use crate::challenges::{Challenges, Responses};
use crate::plan::ChallengeKind;

/// First and longest delay between two questions for the state of an order.
const DELAYS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];
/// Number of questions for the state of an order, which take about four minutes.
const MAX_QUESTIONS: u32 = 30;

/// Why an order failed.
pub(crate) enum Failed {
    /// The program ends, or has another plan.
    Stopped,
    /// The authority does not know the account.
    NoAccount,
    /// The authority has refused the order, usually because of a challenge.
    Refused(String),
    /// Anything else.
    Error(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        if let Error::Api(problem) = &error
            && problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:accountDoesNotExist")
        {
            return Self::NoAccount;
        }
        Self::Error(error.to_string())
    }
}

impl From<String> for Failed {
    fn from(error: String) -> Self {
        Self::Error(error)
    }
}

/// The parts of an order that are the same for all.
pub(crate) struct Context<'a> {
    pub(crate) account: &'a Account,
    pub(crate) challenges: &'a Challenges,
    pub(crate) certificates: &'a Certificates,
    /// Waits, and returns false if the order must end.
    pub(crate) wait: &'a dyn Fn(Duration) -> bool,
}

/// Orders a certificate for `names`, which replaces another one. Returns the chain and the key in PEM.
pub(crate) async fn order(
    context: &Context<'_>,
    names: &[String],
    kind: ChallengeKind,
    replaced: Option<CertificateIdentifier<'_>>,
) -> Result<String, Failed> {
    let names: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let identifiers: Vec<_> = names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = begin(context.account, &identifiers, replaced).await?;
    let mut responses = Responses::new(context.challenges, context.certificates);
    respond(&mut order, kind, &mut responses).await?;
    if until(context, &mut order, |state| state.status != OrderStatus::Pending).await?
        == OrderStatus::Invalid
    {
        return Err(refused(&mut order).await);
    }
    drop(responses);
    let text = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(text)?;
    let mut params = CertificateParams::new(names).map_err(text)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(text)?;
    order.finalize_csr(request.der()).await?;
    let is_made =
        |state: &OrderState| matches!(state.status, OrderStatus::Valid | OrderStatus::Invalid);
    if until(context, &mut order, is_made).await? == OrderStatus::Invalid {
        return Err(refused(&mut order).await);
    }
    let chain = order.certificate().await?;
    let chain = chain.ok_or_else(|| "the authority has sent no certificate".to_owned())?;
    Ok(format!("{}\n{}", chain.trim_end(), key.serialize_pem()))
}

/// Begins an order. An authority may refuse that it replaces a certificate, which is only advice.
async fn begin(
    account: &Account,
    identifiers: &[Identifier],
    replaced: Option<CertificateIdentifier<'_>>,
) -> Result<Order, Error> {
    let order = || NewOrder::new(identifiers);
    if let Some(replaced) = replaced
        && let Ok(order) = account.new_order(&order().replaces(replaced)).await
    {
        return Ok(order);
    }
    account.new_order(&order()).await
}

/// Prepares the responses to the challenges of all names, then asks the authority to check them.
async fn respond(
    order: &mut Order,
    kind: ChallengeKind,
    responses: &mut Responses<'_>,
) -> Result<(), Failed> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => (),
            status => return Err(format!("the authorization for {name} is {status:?}").into()),
        }
        let asked = match kind {
            ChallengeKind::Http01 => ChallengeType::Http01,
            ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let Some(mut challenge) = authorization.challenge(asked) else {
            return Err(format!("the authority offers no {} for {name}", kind.name()).into());
        };
        let key = challenge.key_authorization();
        let digest = key.digest();
        responses.add(kind, (&name, &challenge.token), (key.as_str(), digest.as_ref()))?;
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Waits until the order has a state.
async fn until(
    context: &Context<'_>,
    order: &mut Order,
    is_reached: impl Fn(&OrderState) -> bool,
) -> Result<OrderStatus, Failed> {
    let mut delay = DELAYS[0];
    for _ in 0..MAX_QUESTIONS {
        let state = order.refresh().await?;
        if is_reached(state) {
            return Ok(state.status);
        }
        if !(context.wait)(delay) {
            return Err(Failed::Stopped);
        }
        delay = (delay * 2).min(DELAYS[1]);
    }
    Err("the authority has not completed the order in time".to_owned().into())
}

/// Why the authority refused an order: the errors of its challenges.
async fn refused(order: &mut Order) -> Failed {
    let mut why = Vec::new();
    why.extend(order.state().error.as_ref().map(ToString::to_string));
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        let name = state.identifier().to_string();
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        why.extend(errors.map(|error| format!("{name}: {error}")));
    }
    if why.is_empty() {
        why.push("the authority gives no reason".to_owned());
    }
    Failed::Refused(why.join("; "))
}
