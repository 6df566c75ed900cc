// A queue between a push half and a pull half.
//
//   linerate run examples/pipeline.click
//   linerate check examples/pipeline.click --format svg > pipeline.svg
//
// `check` shows which connections push and which pull. The queue is where the
// two halves meet; $CAPACITY can be set: linerate run FILE CAPACITY=64

define($CAPACITY 1000);

source :: InfiniteSource
  -> in :: Counter
  -> q :: Queue($CAPACITY)     // holds packets; a full one stops the source
  -> Unqueue                   // pulls them out again
  -> out :: Counter
  -> Discard;
