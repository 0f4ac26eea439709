//! AUTH packets, and the authentication method and data in CONNECT and CONNACK.

use phalanx_access::scram::Mechanism;
use phalanx_mqtt::{Auth, Packet, Properties, Property, PropertyBuffer, Reason};

/// The reason for a failed authentication.
pub(super) type Rejection = (Reason, &'static str);

/// The error when a SCRAM exchange authenticates a user other than the one in CONNECT.
pub(super) const OTHER_USER: &str = "SCRAM authenticates another user";

/// The data of an AUTH packet. The packet must have this reason and the method of CONNECT (MQTT-4.12.0-3, MQTT-4.12.0-5).
pub(super) fn data<'a>(
    auth: &Auth<'a>,
    mechanism: Mechanism,
    reason: Reason,
) -> Result<&'a [u8], Rejection> {
    let (method, data) = method_and_data(auth.properties);
    match data {
        Some(data) if auth.reason == reason && method == Some(mechanism.name()) => Ok(data),
        _ => {
            let what = "AUTH needs the authentication method of CONNECT, data, and reason 0x18 to continue or 0x19 to begin";
            Err((Reason::PROTOCOL_ERROR, what))
        }
    }
}

/// The authentication method and data of a packet.
pub(super) fn method_and_data(properties: Properties<'_>) -> (Option<&str>, Option<&[u8]>) {
    let (mut method, mut data) = (None, None);
    for property in properties {
        match property {
            Property::AuthenticationMethod(name) => method = Some(name),
            Property::AuthenticationData(bytes) => data = Some(bytes),
            _ => (),
        }
    }
    (method, data)
}

/// Calls `take` with an AUTH packet.
pub(super) fn with_auth<T>(
    reason: Reason,
    (mechanism, data): (Mechanism, &str),
    take: impl FnOnce(&Packet<'_>) -> T,
) -> T {
    let mut properties = PropertyBuffer::new();
    for property in proof_properties(mechanism, data) {
        // Cannot fail: names and data are shorter than 64 KiB.
        let _ = properties.push(property);
    }
    take(&Packet::Auth(Auth { reason, properties: properties.get() }))
}

/// The properties of a method and its data.
pub(super) fn proof_properties(mechanism: Mechanism, data: &str) -> [Property<'_>; 2] {
    [
        Property::AuthenticationMethod(mechanism.name()),
        Property::AuthenticationData(data.as_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::Version;

    use super::*;

    #[test]
    fn an_exchange_has_one_order() {
        let (all, mechanism) =
            ([Reason::CONTINUE_AUTHENTICATION, Reason::RE_AUTHENTICATE], Mechanism::Sha256);
        for (sent, expected) in all.iter().flat_map(|sent| all.map(|expected| (*sent, expected))) {
            let is_taken = with_auth(sent, (mechanism, "x"), |packet| {
                let mut bytes = Vec::new();
                packet.encode(Version::V5, &mut bytes).unwrap();
                let Packet::Auth(auth) = packet else { panic!("{packet:?}") };
                data(auth, mechanism, expected).is_ok()
            });
            assert_eq!(is_taken, sent == expected);
        }
    }
}
