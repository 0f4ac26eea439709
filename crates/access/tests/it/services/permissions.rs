//! Access to topics that a service decides.

use std::time::Duration;

use phalanx::time::now;
use phalanx_access::{Action, CallOutError, CallOutOptions, Endpoint, Permission, Permissions};
use phalanx_guard::Refusal;

use super::{URL, run, seconds};

fn options() -> CallOutOptions {
    CallOutOptions {
        is_form: false,
        authorization: None,
        timeout: Duration::from_secs(2),
        max_requests: 2,
        allowed: Duration::from_secs(60),
        denied: Duration::from_secs(5),
        max_answers: 100,
    }
}

fn permission(topic: &str) -> Permission<'_> {
    let address = Some([10, 0, 0, 1].into());
    Permission { user: Some("eve"), client_id: "c", address, action: Action::Publish, topic }
}

fn service() -> Permissions {
    Permissions::new(Endpoint::open(URL, None).unwrap(), options())
}

#[test]
fn a_form_has_the_same_fields() {
    run(|service, fetcher, _| async move {
        let options = CallOutOptions { is_form: true, ..options() };
        let permissions = Permissions::new(Endpoint::open(URL, None).unwrap(), options);
        service.answers(204, "", "");
        assert_eq!(
            permissions.ask(permission("a/b"), &fetcher).await.map(|(allowed, _)| allowed),
            Ok(true)
        );
        let request = service.requests.borrow()[0].clone();
        let expected = "username=eve&clientid=c&peerhost=10.0.0.1&action=publish&acc=2&topic=a%2Fb";
        assert_eq!(request.split_once("\r\n\r\n").unwrap().1, expected);
    });
}

#[test]
fn answers_are_of_one_topic_and_action() {
    run(|service, fetcher, _| async move {
        let permissions = self::service();
        let check_until = async |permission| permissions.ask(permission, &fetcher).await;
        let check = async |permission| check_until(permission).await.map(|(allowed, _)| allowed);
        service.answers(200, "", r#"{"result": "allow"}"#);
        let start = now();
        for _ in 0..3 {
            let (allowed, end) = check_until(permission("a/b")).await.unwrap();
            // The end does not change while the answer is used.
            assert!(allowed && end < start + Duration::from_secs(61));
            seconds(1).await;
        }
        assert_eq!(service.count(), 1);
        let request = service.requests.borrow()[0].clone();
        let expected = r#"{"acc":2,"action":"publish","clientid":"c","peerhost":"10.0.0.1","topic":"a/b","username":"eve"}"#;
        assert_eq!(request.split_once("\r\n\r\n").unwrap().1, expected);
        service.answers(403, "", "");
        let subscribe = Permission { action: Action::Subscribe, ..permission("a/b") };
        assert_eq!(check(subscribe).await, Ok(false));
        assert!(service.requests.borrow()[1].contains(r#""acc":4,"action":"subscribe""#));
        let anonymous = Permission { user: None, ..permission("a/b") };
        assert_eq!(check(anonymous).await, Ok(false));
        assert_eq!((check(permission("a/c")).await, service.count()), (Ok(false), 4));
        // A denial is kept for a shorter time than a permission.
        service.answers(500, "", "");
        seconds(6).await;
        assert_eq!(check(permission("a/c")).await, Err(CallOutError::Unavailable));
        assert_eq!(check(permission("a/b")).await, Ok(true));
        seconds(60).await;
        assert_eq!(check(permission("a/b")).await, Err(CallOutError::Unavailable));
    });
}

#[test]
fn waiting_requests_are_limited() {
    run(|service, fetcher, stage| async move {
        let permissions = self::service();
        // The service does not answer: two requests are sent, and 2,000 wait.
        for n in 0..2002 {
            let (permissions, fetcher) = (permissions.clone(), fetcher.clone());
            let call = stage.dispatch(move |_| async move {
                let topic = n.to_string();
                let result = permissions.ask(permission(&topic), &fetcher).await;
                assert_eq!(result, Err(CallOutError::Unavailable));
            });
            call.unwrap();
            if n == 1 {
                while service.count() < 2 {
                    phalanx::sleep(Duration::from_millis(1)).await;
                }
            }
        }
        phalanx::sleep(Duration::from_millis(1)).await;
        let refused = permissions.ask(permission("x"), &fetcher).await;
        assert_eq!(refused, Err(CallOutError::Refused(Refusal::Busy)));
        // The others end within their time.
        seconds(10).await;
    });
}
