//! Waiting for a level.

use std::time::Duration;

use holdfast_testkit::eventually;

#[tokio::test]
async fn it_asks_until_the_answer_is_right() {
    let mut asked = 0;
    let answer = eventually(Duration::from_secs(10), "the third answer", async || {
        asked += 1;
        if asked == 3 { Ok(asked) } else { Err(format!("asked {asked} times")) }
    })
    .await;
    assert_eq!(answer, 3);
}

#[tokio::test]
#[should_panic(expected = "waited 20ms for rain; at last: only clouds")]
async fn it_says_what_was_seen_last() {
    eventually(Duration::from_millis(20), "rain", async || Err::<(), _>("only clouds")).await;
}

#[tokio::test]
#[should_panic(expected = "waited 20ms for an answer")]
async fn it_does_not_wait_for_a_question_that_hangs() {
    eventually(Duration::from_millis(20), "an answer", std::future::pending::<Result<(), String>>)
        .await;
}
