i :: InfiniteSource(LIMIT 10) -> c :: Counter -> Queue -> Unqueue -> Discard;
# 7 "other"
StaticThreadSched(i 0);