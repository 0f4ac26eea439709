//! The application on real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use phalanx::net::Listeners;
use phalanx::{Graph, Runtime};
use phalanx_axum::Stages;
use {{crate_name}}::{Counters, router};

fn request(address: SocketAddr, line: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn counters_count() {
    let mut graph = Graph::new();
    let http = Stages::declare(&mut graph);
    let app = router(Counters::declare(&mut graph));
    let listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let address = listeners.local_addr();
    let ran = Runtime::new().processors(2).signals(false).run_with_ready(
        graph,
        |start| {
            http.serve(listeners.listener(start)?, app.clone())?;
            Ok(())
        },
        |started| {
            assert!(request(address, "GET /counters/a").starts_with("HTTP/1.1 404 "));
            for count in 1..=3 {
                let response = request(address, "POST /counters/a");
                let (_, body) = response.split_once("\r\n\r\n").unwrap();
                let expected = [r#"{"name":"a","count":"#, &count.to_string(), "}"].concat();
                assert_eq!(body, expected);
            }
            let long = format!("POST /counters/{}", "a".repeat(1000));
            assert!(request(address, &long).starts_with("HTTP/1.1 400 "));
            assert!(request(address, "GET /health").ends_with("\r\n\r\nok\n"));
            started.control.drain();
        },
    );
    ran.unwrap();
}
