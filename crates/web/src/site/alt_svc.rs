//! The announcement of HTTP/3 in responses over TLS (RFC 7838 §3).

use phalanx_http::FieldBlock;

use crate::config::{Config, has_http3};

/// The fields that announce HTTP/3 for a day. Each address with TLS announces its own UDP port.
#[derive(Clone, Default)]
pub(crate) struct AltSvc {
    /// By announced port; the last is empty.
    fields: Vec<FieldBlock>,
    /// Ports of connections, with the places of their fields. Empty if all addresses with TLS have the first field.
    places: Vec<(u16, Place)>,
}

/// The place of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u8);

impl AltSvc {
    /// The fields for a server whose connections at each first port may continue at the second port over UDP.
    pub(crate) fn new(config: &Config, ports: &[(u16, u16)]) -> Self {
        let mut announced: Vec<u16> = match config.http3_port {
            _ if !config.http3 => Vec::new(),
            Some(port) => vec![port],
            None => ports.iter().map(|(_, udp)| *udp).collect(),
        };
        announced.sort_unstable();
        announced.dedup();
        // The place has one byte. Connections at further ports announce nothing.
        announced.truncate(usize::from(u8::MAX));
        let field = |port: &u16| {
            let mut field = FieldBlock::default();
            field.push("Alt-Svc", format!("h3=\":{port}\"; ma=86400").as_bytes());
            field
        };
        let fields = announced.iter().map(field).chain([FieldBlock::default()]).collect();
        let lacks_http3 = config.listen.iter().any(|listen| listen.is_tls() && !has_http3(listen));
        let is_same = announced.len() < 2 && (!lacks_http3 || config.http3_port.is_some());
        let place = |(local, udp): &(u16, u16)| {
            let place = announced.binary_search(udp).unwrap_or(announced.len());
            (*local, Place(place as u8))
        };
        let places = if is_same { Vec::new() } else { ports.iter().map(place).collect() };
        Self { fields, places }
    }

    /// The place of the field for a connection at a local `port`, which is asked for only if it matters.
    pub(crate) fn place(&self, port: impl FnOnce() -> Option<u16>) -> Place {
        if self.places.is_empty() {
            return Place::default();
        }
        let port = port();
        let found = self.places.iter().find(|(local, _)| Some(*local) == port);
        found.map_or(Place((self.fields.len() - 1) as u8), |(_, place)| *place)
    }

    /// The field at `place`, if there is one.
    #[inline]
    pub(crate) fn field(&self, place: Place) -> Option<&FieldBlock> {
        self.fields.get(usize::from(place.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &[&str]) -> Config {
        let listen = listen.iter().map(|listen| listen.parse().unwrap()).collect();
        Config { listen, http3: true, ..Config::new() }
    }

    /// Connections at the local `port` have the announcement of UDP port `announced`.
    fn check(alt_svc: &AltSvc, port: u16, announced: Option<u16>) {
        let mut expected = FieldBlock::default();
        if let Some(announced) = announced {
            expected.push("Alt-Svc", format!("h3=\":{announced}\"; ma=86400").as_bytes());
        }
        let field = alt_svc.field(alt_svc.place(|| Some(port))).unwrap();
        assert_eq!(format!("{:?}", field.all()), format!("{:?}", expected.all()), "port {port}");
    }

    #[test]
    fn each_address_announces_its_port() {
        let two = config(&["https://10.0.0.1:443", "https://10.0.0.2:8443", "http://10.0.0.1:80"]);
        let alt_svc = AltSvc::new(&two, &[(443, 443), (8443, 8444)]);
        for (port, announced) in [(443, Some(443)), (8443, Some(8444)), (9, None)] {
            check(&alt_svc, port, announced);
        }
        let one = config(&["https://0.0.0.0:443", "https://[::]:443"]);
        let alt_svc = AltSvc::new(&one, &[(443, 443), (443, 443)]);
        assert_eq!(alt_svc.place(|| unreachable!("all ports are the same")), Place(0));
        check(&alt_svc, 443, Some(443));
    }

    #[test]
    fn addresses_behind_a_proxy_for_tcp_announce_a_configured_port_only() {
        let mut config = config(&["https://10.0.0.1:443", "proxy+https://10.0.0.1:444"]);
        let alt_svc = AltSvc::new(&config, &[(443, 443)]);
        check(&alt_svc, 443, Some(443));
        check(&alt_svc, 444, None);
        config.http3_port = Some(8443);
        let alt_svc = AltSvc::new(&config, &[(443, 443)]);
        check(&alt_svc, 443, Some(8443));
        check(&alt_svc, 444, Some(8443));
        config.http3 = false;
        check(&AltSvc::new(&config, &[]), 443, None);
    }
}
