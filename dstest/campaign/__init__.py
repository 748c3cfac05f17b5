"""Many runs: sessions of several arms, nights, workers, a failing run made small, published bugs
found again. Each of these makes runs; what lies in a store afterwards is `dstest.store`."""
