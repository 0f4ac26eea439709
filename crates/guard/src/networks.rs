//! Lists of networks such as `10.0.0.0/8`, and rules about who may connect.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Bits before an IPv4 address in its mapped form, `::ffff:0:0/96`.
const MAPPED: u8 = 96;

/// The addresses with a common prefix, such as `10.0.0.0/8` or `2001:db8::/32`; a plain address is a network of one.
///
/// ```
/// use phalanx_guard::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// assert_eq!("::1".parse::<Network>()?.to_string(), "::1");
/// assert!("10.0.0.1/8".parse::<Network>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether the address belongs to the network. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, last) = self.range();
        (first..=last).contains(&bits(address))
    }

    /// First and last address.
    fn range(&self) -> (u128, u128) {
        let first = bits(self.address);
        (first, first | host_bits(self.mapped_prefix()))
    }

    /// Length of the prefix of the mapped form.
    fn mapped_prefix(&self) -> u8 {
        if self.address.is_ipv4() { MAPPED + self.prefix } else { self.prefix }
    }
}

/// The address as a number, with IPv4 in its mapped form.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The bits behind a prefix.
fn host_bits(prefix: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| format!("{address:?} is not an IP address"))?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => max,
            Some(prefix) => match prefix.parse() {
                Ok(prefix) if prefix <= max => prefix,
                _ => {
                    return Err(format!("the prefix in {text:?} is not a number from 0 to {max}"));
                }
            },
        };
        let network = Self { address, prefix };
        let (address_bits, host) = (bits(address), host_bits(network.mapped_prefix()));
        // Probably a typing error, and the intended network is unclear.
        if address_bits & host != 0 {
            let address = match address {
                IpAddr::V4(_) => Ipv4Addr::from_bits((address_bits & !host) as u32).into(),
                IpAddr::V6(_) => Ipv6Addr::from_bits(address_bits & !host).into(),
            };
            let network = Self { address, prefix };
            return Err(format!(
                "{text:?} has bits behind its prefix; did you mean \"{network}\"?"
            ));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = if self.address.is_ipv4() { 32 } else { 128 };
        match self.prefix {
            prefix if prefix == max => write!(f, "{}", self.address),
            prefix => write!(f, "{}/{prefix}", self.address),
        }
    }
}

/// A set of addresses, given as networks. A search takes logarithmic time in their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// First and last addresses of disjoint ranges, in ascending order.
    ranges: Box<[(u128, u128)]>,
}

impl Networks {
    /// The union of these networks.
    pub fn new(networks: &[Network]) -> Self {
        let mut all: Vec<_> = networks.iter().map(Network::range).collect();
        all.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges: ranges.into() }
    }

    /// Whether there is no network.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the address belongs to one of the networks. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = bits(address);
        let at = self.ranges.partition_point(|(first, _)| *first <= address);
        at.checked_sub(1).is_some_and(|at| address <= self.ranges[at].1)
    }
}

/// Which addresses are admitted: none in `deny`, and if `allow` is not empty, only those in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRules {
    allow: Networks,
    deny: Networks,
}

impl AddressRules {
    /// Creates rules from two lists of networks; `None` if both are empty and every address is admitted.
    pub fn new(allow: &[Network], deny: &[Network]) -> Option<Self> {
        let rules = Self { allow: Networks::new(allow), deny: Networks::new(deny) };
        Some(rules).filter(|rules| *rules != Self::default())
    }

    /// Whether the address is admitted.
    pub fn admits(&self, address: IpAddr) -> bool {
        !self.deny.contains(address) && (self.allow.is_empty() || self.allow.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_read_and_printed() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "192.168.1.7", "2001:db8::/32", "::1"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("1.2.3.4/32".parse::<Network>(), "1.2.3.4".parse());
        for (text, reason) in [
            ("", "not an IP address"),
            ("10.0.0/8", "not an IP address"),
            ("example.org", "not an IP address"),
            ("10.0.0.0/33", "0 to 32"),
            ("10.0.0.0/", "0 to 32"),
            ("10.0.0.0/-1", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.1.2.3/8", "did you mean \"10.0.0.0/8\"?"),
            ("2001:db8::1/64", "did you mean \"2001:db8::/64\"?"),
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        for text in ["10.0.0.0/8", "::ffff:10.0.0.0/104"] {
            let network: Network = text.parse().unwrap();
            assert!(network.contains(address("10.9.9.9")), "{text}");
            assert!(network.contains(address("::ffff:10.9.9.9")), "{text}");
            assert!(!network.contains(address("11.0.0.0")) && !network.contains(address("::a09")));
        }
    }

    #[test]
    fn deny_overrides_allow() {
        assert_eq!(AddressRules::new(&[], &[]), None);
        let admits = |allow: &[&str], deny: &[&str], text| {
            let rules = AddressRules::new(&networks(allow), &networks(deny)).unwrap();
            rules.admits(address(text))
        };
        assert!(admits(&["10.0.0.0/8"], &[], "10.0.0.1") && !admits(&["10.0.0.0/8"], &[], "::1"));
        assert!(!admits(&[], &["10.0.0.0/8"], "10.0.0.1") && admits(&[], &["10.0.0.0/8"], "::1"));
        let (allow, deny) = (&["10.0.0.0/8"][..], &["10.0.0.1"][..]);
        assert!(!admits(allow, deny, "10.0.0.1") && admits(allow, deny, "10.0.0.2"));
        assert!(!admits(&["0.0.0.0/0"], &[], "::1") && admits(&["::/0"], &[], "10.0.0.1"));
    }

    /// The merged ranges contain an address exactly if one of the networks does.
    #[test]
    fn a_list_is_the_union_of_its_networks() {
        let mut random = 88172645463325252u64;
        let mut draw = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        for _ in 0..2_000 {
            let list: Vec<Network> = (0..draw(9))
                .map(|_| {
                    let prefix = 24 + draw(9) as u8;
                    let bits = (draw(1024) as u32) & !(host_bits(96 + prefix) as u32);
                    Network { address: Ipv4Addr::from_bits(bits).into(), prefix }
                })
                .collect();
            let union = Networks::new(&list);
            for _ in 0..20 {
                let address = Ipv4Addr::from_bits(draw(1100) as u32).into();
                let expected = list.iter().any(|network| network.contains(address));
                assert_eq!(union.contains(address), expected, "{list:?} {address}");
            }
        }
    }
}
