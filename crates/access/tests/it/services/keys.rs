//! Keys of tokens at a URL.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use phalanx::sleep;
use phalanx::time::now;
use phalanx_access::{Claims, Endpoint, Jwt, KEYS_MISSING, RemoteKeys};
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::{URL, run, seconds};

/// The maximum age of keys.
const MAX_AGE: Duration = Duration::from_secs(900);

fn encode(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

/// The key whose seed is the same byte 32 times.
fn pair(key: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[key; 32]).unwrap()
}

fn token(key: u8) -> Vec<u8> {
    let header = format!(r#"{{"alg":"EdDSA","kid":"{key}"}}"#);
    let claims = r#"{"sub":"eve","exp":2000}"#;
    let signed = format!("{}.{}", encode(header), encode(claims));
    let signature = pair(key).sign(signed.as_bytes());
    format!("{signed}.{}", encode(signature)).into()
}

fn key_set(keys: &[u8]) -> String {
    let key = |key: &u8| {
        let x = encode(pair(*key).public_key());
        format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{key}","x":"{x}"}}"#)
    };
    format!(r#"{{"keys":[{}]}}"#, keys.iter().map(key).collect::<Vec<_>>().join(","))
}

fn by_url(previous: Option<&Jwt>) -> Jwt {
    let endpoint = Endpoint::open(URL, None).unwrap();
    let keys = RemoteKeys::new(endpoint, MAX_AGE, previous.and_then(Jwt::remote_keys));
    Jwt::remote(keys, Claims { user: "sub".into(), ..Claims::default() })
}

#[test]
fn keys_are_fetched_when_they_are_needed() {
    run(|service, fetcher, stage| async move {
        let jwt = Rc::new(by_url(None));
        let verify = async |key| jwt.verify_with(&fetcher, &token(key), 1000).await;
        // A failure is not repeated immediately.
        service.answers(500, "", "");
        for _ in 0..3 {
            assert_eq!(verify(1).await, Err(KEYS_MISSING));
        }
        assert_eq!(service.count(), 1);
        seconds(2).await;
        service.answers(200, "Cache-Control: max-age=120\r\n", &key_set(&[1]));
        for _ in 0..3 {
            assert_eq!(verify(1).await.as_deref(), Ok("eve"));
        }
        assert_eq!(service.count(), 2);
        assert!(service.requests.borrow()[1].starts_with("GET /path HTTP/1.1\r\n"));
        // An unknown key causes one fetch in ten seconds, for all logins together.
        service.answers(200, "Cache-Control: max-age=120\r\n", &key_set(&[1, 2]));
        assert!(verify(2).await.is_err());
        assert_eq!(service.count(), 2);
        seconds(11).await;
        let verified = Rc::new(Cell::new(0));
        for _ in 0..20 {
            let (jwt, fetcher, verified) = (jwt.clone(), fetcher.clone(), verified.clone());
            let login = move |_| async move {
                let user = jwt.verify_with(&fetcher, &token(2), 1000).await;
                assert_eq!(user.as_deref(), Ok("eve"));
                verified.set(verified.get() + 1);
            };
            stage.dispatch(login).unwrap();
        }
        while verified.get() < 20 {
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(service.count(), 3);
        // The keys are fetched again at the end of their lifetime.
        service.answers(200, "", &key_set(&[2]));
        seconds(121).await;
        assert!(verify(1).await.is_err());
        assert_eq!((verify(2).await.as_deref(), service.count()), (Ok("eve"), 4));
        // A reload fetches them again. A server that does not answer delays a login by ten seconds at most.
        let reloaded = by_url(Some(&jwt));
        service.answer.borrow_mut().clear();
        let start = now();
        let user = reloaded.verify_with(&fetcher, &token(2), 1000).await;
        assert_eq!((user.as_deref(), service.count()), (Ok("eve"), 5));
        assert!((9..12).contains(&(now() - start).as_secs()));
        // Failures leave the keys of the last fetch in use, and further logins do not wait for the next one.
        seconds(2).await;
        let long = "x".repeat(2 << 20);
        for (n, (status, body)) in
            [(503, ""), (200, "{}"), (200, &*long), (302, "")].into_iter().enumerate()
        {
            service.answers(status, "", body);
            let start = now();
            let user = reloaded.verify_with(&fetcher, &token(2), 1000).await;
            assert_eq!((user.as_deref(), now() - start), (Ok("eve"), Duration::ZERO));
            seconds(61).await;
            assert_eq!(service.count(), 6 + n);
        }
        // After a reload, the first login waits for a fetch.
        service.answers(200, "", &key_set(&[1]));
        assert!(by_url(Some(&reloaded)).verify_with(&fetcher, &token(2), 1000).await.is_err());
        service.answers(200, "", &key_set(&[2]));
        seconds(301).await;
        assert_eq!(reloaded.verify_with(&fetcher, &token(2), 1000).await.as_deref(), Ok("eve"));
        // If fetches keep failing, the keys are no longer used after their maximum age.
        service.answers(503, "", "");
        seconds(901).await;
        assert_eq!(reloaded.verify_with(&fetcher, &token(2), 1000).await, Err(KEYS_MISSING));
        service.answers(200, "", &key_set(&[2]));
        seconds(61).await;
        assert_eq!(reloaded.verify_with(&fetcher, &token(2), 1000).await.as_deref(), Ok("eve"));
    });
}
