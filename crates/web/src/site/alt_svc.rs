//! The announcement of HTTP/3 in responses over TLS (RFC 7838 §3).

use std::net::SocketAddr;

use phalanx_http::FieldBlock;

use crate::config::Config;

/// The fields that announce HTTP/3 for a day. Each address with TLS announces its own UDP port.
#[derive(Clone, Default)]
pub(crate) struct AltSvc {
    /// One block for each announced port; the last block is empty.
    fields: Vec<FieldBlock>,
    /// Listen addresses with the indices of their fields. Empty if all addresses have the first field.
    places: Vec<(SocketAddr, Place)>,
}

/// Index of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u8);

impl AltSvc {
    /// The fields for a server whose connections at each TCP address may continue at the port over UDP.
    pub(crate) fn new(config: &Config, ports: &[(SocketAddr, u16)]) -> Self {
        let mut announced: Vec<u16> = match config.http3_port {
            _ if !config.http3 => Vec::new(),
            Some(port) => vec![port],
            None => ports.iter().map(|(_, udp)| *udp).collect(),
        };
        announced.sort_unstable();
        announced.dedup();
        // The index has one byte. Connections at further ports announce nothing.
        announced.truncate(usize::from(u8::MAX));
        let field = |port: &u16| {
            let mut field = FieldBlock::default();
            field.push("Alt-Svc", format!("h3=\":{port}\"; ma=86400").as_bytes());
            field
        };
        let fields = announced.iter().map(field).chain([FieldBlock::default()]).collect();
        let place = |(address, udp): &(SocketAddr, u16)| {
            let place = announced.binary_search(udp).unwrap_or(announced.len());
            (*address, Place(place as u8))
        };
        let is_same = !config.http3 || config.http3_port.is_some();
        let places = if is_same { Vec::new() } else { ports.iter().map(place).collect() };
        Self { fields, places }
    }

    /// The index of the field for a connection at a `local` address, which is determined only if needed.
    pub(crate) fn place(&self, local: impl FnOnce() -> Option<SocketAddr>) -> Place {
        if self.places.is_empty() {
            return Place::default();
        }
        let found = local().and_then(|local| {
            let (ip, port) = (local.ip().to_canonical(), local.port());
            let here = || self.places.iter().filter(|(address, _)| address.port() == port);
            let own = here().find(|(address, _)| address.ip().to_canonical() == ip);
            // A wildcard listener gets the connections that no specific listener gets.
            own.or_else(|| here().find(|(address, _)| address.ip().is_unspecified()))
        });
        found.map_or(Place((self.fields.len() - 1) as u8), |(_, place)| *place)
    }

    /// The field with index `place`, if there is one.
    #[inline]
    pub(crate) fn field(&self, place: Place) -> Option<&FieldBlock> {
        self.fields.get(usize::from(place.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the announcement to connections at a local address.
    fn check(alt_svc: &AltSvc, local: &str, port: Option<u16>) {
        let mut expected = FieldBlock::default();
        if let Some(port) = port {
            expected.push("Alt-Svc", format!("h3=\":{port}\"; ma=86400").as_bytes());
        }
        let place = alt_svc.place(|| Some(local.parse().unwrap()));
        assert_eq!(alt_svc.field(place), Some(&expected), "{local}");
    }

    fn ports(of: &[(&str, u16)]) -> Vec<(SocketAddr, u16)> {
        of.iter().map(|(address, udp)| (address.parse().unwrap(), *udp)).collect()
    }

    #[test]
    fn each_address_announces_its_port() {
        let config = Config { http3: true, ..Config::new() };
        let own = ports(&[("10.0.0.1:443", 443), ("10.0.0.2:8443", 8444), ("10.0.0.3:443", 445)]);
        let alt_svc = AltSvc::new(&config, &own);
        for (local, port) in [
            ("10.0.0.1:443", Some(443)),
            ("[::ffff:10.0.0.1]:443", Some(443)),
            ("10.0.0.3:443", Some(445)),
            ("10.0.0.2:8443", Some(8444)),
            // Behind a proxy for TCP, or added by a reload.
            ("10.0.0.2:443", None),
            ("10.0.0.1:9", None),
        ] {
            check(&alt_svc, local, port);
        }
        let all = AltSvc::new(&config, &ports(&[("[::]:443", 443), ("10.0.0.1:443", 444)]));
        check(&all, "10.0.0.1:443", Some(444));
        check(&all, "10.0.0.2:443", Some(443));
    }

    #[test]
    fn a_configured_port_is_announced_at_every_address() {
        let mut config = Config { http3: true, http3_port: Some(8443), ..Config::new() };
        let alt_svc = AltSvc::new(&config, &ports(&[("10.0.0.1:443", 443)]));
        assert_eq!(alt_svc.place(|| unreachable!("all addresses are the same")), Place(0));
        check(&alt_svc, "10.0.0.2:444", Some(8443));
        config.http3 = false;
        check(&AltSvc::new(&config, &[]), "10.0.0.1:443", None);
    }
}
