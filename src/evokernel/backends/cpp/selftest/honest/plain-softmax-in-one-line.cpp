// selftest: task=starter/softmax
extern "C" void kernel(const float*x,const int64_t*x_shape,float*out,const int64_t*out_shape){for(int64_t r=0,C=x_shape[1];r<x_shape[0];++r){float m=x[r*C],s=0;for(int64_t c=1;c<C;++c)m=std::fmax(m,x[r*C+c]);for(int64_t c=0;c<C;++c)s+=out[r*C+c]=std::exp(x[r*C+c]-m);for(int64_t c=0;c<C;++c)out[r*C+c]/=s;}}
