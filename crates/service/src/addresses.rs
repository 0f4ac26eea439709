//! Addresses to listen on, as somebody has listed them.

use std::net::SocketAddr;

/// What is wrong with addresses that are in a list twice; with port 0 each has a port of its own.
pub fn listed_twice(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<String> {
    let (mut seen, mut wrong) = (Vec::new(), Vec::new());
    for address in addresses {
        if address.port() != 0 && seen.contains(&address) {
            wrong.push(format!("{address} stands there twice"));
        }
        seen.push(address);
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_but_the_first_is_told() {
        let list = ["127.0.0.1:1", "127.0.0.1:0", "127.0.0.1:2", "127.0.0.1:0", "127.0.0.1:1"];
        let twice = listed_twice(list.map(|address| address.parse().unwrap()));
        assert_eq!(twice, ["127.0.0.1:1 stands there twice"]);
    }
}
