# Optional libraries: found or not, `fast info` says which. Sets FAST_DEFINITIONS, FAST_INCLUDES,
# FAST_LIBRARIES, FAST_CPU_ENGINE and FAST_MPI_TRANSPORT.
set(FAST_DEFINITIONS "")
set(FAST_INCLUDES "")
set(FAST_LIBRARIES "")

if(FAST_ZLIB)
  find_package(ZLIB)
  if(ZLIB_FOUND)
    list(APPEND FAST_DEFINITIONS FAST_HAVE_ZLIB)
    list(APPEND FAST_LIBRARIES ZLIB::ZLIB)
  endif()
endif()

if(FAST_BLAS)
  # Debian keeps the flavours apart; the openmp one shares its threads with oneDNN.
  find_library(OPENBLAS_LIBRARY NAMES openblas PATH_SUFFIXES openblas-openmp openblas-serial
                                                           openblas-pthread)
  find_path(OPENBLAS_INCLUDE cblas.h
            PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp
                          ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial
                          ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread openblas
                          ${CMAKE_LIBRARY_ARCHITECTURE})
  if(OPENBLAS_LIBRARY AND OPENBLAS_INCLUDE)
    list(APPEND FAST_DEFINITIONS FAST_HAVE_BLAS)
    list(APPEND FAST_INCLUDES ${OPENBLAS_INCLUDE})
    list(APPEND FAST_LIBRARIES ${OPENBLAS_LIBRARY})
  endif()
endif()

if(FAST_XSMM)
  # Debian's is static only, and wants a BLAS or its stand-in.
  find_library(XSMM_LIBRARY xsmm)
  find_library(XSMM_NOBLAS_LIBRARY xsmmnoblas)
  find_path(XSMM_INCLUDE libxsmm.h)
  if(XSMM_LIBRARY AND XSMM_NOBLAS_LIBRARY AND XSMM_INCLUDE)
    list(APPEND FAST_DEFINITIONS FAST_HAVE_XSMM)
    list(APPEND FAST_INCLUDES ${XSMM_INCLUDE})
    list(APPEND FAST_LIBRARIES ${XSMM_LIBRARY} ${XSMM_NOBLAS_LIBRARY} ${CMAKE_DL_LIBS})
  endif()
endif()

if(FAST_ONEDNN)
  find_library(DNNL_LIBRARY dnnl)
  find_path(DNNL_INCLUDE dnnl.h)
  if(DNNL_LIBRARY AND DNNL_INCLUDE)
    list(APPEND FAST_DEFINITIONS FAST_HAVE_ONEDNN)
    list(APPEND FAST_INCLUDES ${DNNL_INCLUDE})
    list(APPEND FAST_LIBRARIES ${DNNL_LIBRARY})
  endif()
endif()

# The cpu engine needs one of them for its matrix products.
if("FAST_HAVE_XSMM" IN_LIST FAST_DEFINITIONS OR "FAST_HAVE_BLAS" IN_LIST FAST_DEFINITIONS)
  set(FAST_CPU_ENGINE ON)
  list(APPEND FAST_DEFINITIONS FAST_HAVE_CPU_ENGINE)
else()
  set(FAST_CPU_ENGINE OFF)
endif()

if(FAST_FCONTEXT)
  # Two routines of assembly with C linkage: the simulator's coroutines. Without them: ucontext.
  find_library(BOOST_CONTEXT_LIBRARY NAMES libboost_context.a boost_context)
  if(BOOST_CONTEXT_LIBRARY)
    list(APPEND FAST_DEFINITIONS FAST_HAVE_FCONTEXT)
    list(APPEND FAST_LIBRARIES ${BOOST_CONTEXT_LIBRARY})
  endif()
endif()

if(FAST_YAML)
  find_library(FYAML_LIBRARY fyaml)
  find_path(FYAML_INCLUDE libfyaml.h)
  if(FYAML_LIBRARY AND FYAML_INCLUDE)
    list(APPEND FAST_DEFINITIONS FAST_HAVE_YAML)
    list(APPEND FAST_INCLUDES ${FYAML_INCLUDE})
    list(APPEND FAST_LIBRARIES ${FYAML_LIBRARY})
  endif()
endif()

set(FAST_MPI_TRANSPORT OFF)
if(FAST_MPI)
  find_package(MPI COMPONENTS C)
  if(MPI_C_FOUND)
    set(FAST_MPI_TRANSPORT ON)
    list(APPEND FAST_DEFINITIONS FAST_HAVE_MPI)
    list(APPEND FAST_INCLUDES ${MPI_C_INCLUDE_DIRS})
    list(APPEND FAST_LIBRARIES ${MPI_C_LIBRARIES})
  endif()
endif()
